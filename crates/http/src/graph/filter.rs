//! Filters of blocks: the parameters `kind`, `tag` and `metadata`.

use quire::GraphFilter;

use crate::error::Problem;
use crate::params::Params;

/// Reads the parameters.
pub(super) fn of(params: &mut Params) -> Result<GraphFilter, Problem> {
    let field = |given: String| match given.split_once('=') {
        Some((field, value)) if !field.is_empty() => Ok((unescaped(field), value.to_owned())),
        _ => Err(Problem::invalid(format!("metadata must be FIELD=VALUE, got {given:?}"))),
    };
    let metadata = params.all("metadata").into_iter().map(field).collect::<Result<_, _>>()?;
    let filter = GraphFilter { kinds: params.all("kind"), tags: params.all("tag"), metadata };
    match filter.invalid_pointer() {
        None => Ok(filter),
        Some(field) => {
            let message =
                format!("invalid JSON pointer {field:?}: ~ must be followed by 0 (for ~), 1 (for /) or 2 (for =)");
            Err(Problem::invalid(message))
        }
    }
}

/// The field of a filter; in the pointer, `~2` represents `=`, which would end it.
fn unescaped(field: &str) -> String {
    if field.starts_with('/') { field.replace("~2", "=") } else { field.to_owned() }
}
