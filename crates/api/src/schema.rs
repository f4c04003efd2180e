//! Descriptions of types whose JSON is written by hand.

/// Describes a type by a schema that stands where the type is used.
macro_rules! inline_schema {
    (all $parameter:ident: $type:ty, $name:literal, $schema:tt) => {
        inline_schema!(@ [$parameter] $type, $name, $schema);
    };
    (@ [$($parameter:ident)?] $type:ty, $name:literal, $schema:tt) => {
        impl $(<$parameter>)? schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
    ($type:ty, $name:literal, $schema:tt) => {
        inline_schema!(@ [] $type, $name, $schema);
    };
}

pub(crate) use inline_schema;
