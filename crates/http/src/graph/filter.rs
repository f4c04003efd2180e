//! Which blocks a request asks for: the parameters `kind`, `tag` and `metadata`.

use quire::GraphFilter;

use crate::error::Problem;
use crate::params::Params;

/// Takes the parameters.
pub(super) fn of(params: &mut Params) -> Result<GraphFilter, Problem> {
    let field = |given: String| match given.split_once('=') {
        Some((field, value)) if !field.is_empty() => Ok((unescaped(field), value.to_owned())),
        _ => Err(Problem::invalid(format!("metadata is FIELD=VALUE, not {given:?}"))),
    };
    let metadata = params.all("metadata").into_iter().map(field).collect::<Result<_, _>>()?;
    let filter = GraphFilter { kinds: params.all("kind"), tags: params.all("tag"), metadata };
    match filter.invalid_pointer() {
        None => Ok(filter),
        Some(field) => {
            let message = format!("{field:?} is no JSON pointer: behind ~ stands 0 (for ~), 1 (for /) or 2 (for =)");
            Err(Problem::invalid(message))
        }
    }
}

/// A field as a filter has it: in a pointer, `~2` stands for `=`, which would end it.
fn unescaped(field: &str) -> String {
    if field.starts_with('/') { field.replace("~2", "=") } else { field.to_owned() }
}
