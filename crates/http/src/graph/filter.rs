//! Which blocks a request asks for: the parameters `kind`, `tag` and `metadata`.

use quire::GraphFilter;

use crate::error::Problem;
use crate::params::Params;

/// Takes the parameters.
pub(super) fn of(params: &mut Params) -> Result<GraphFilter, Problem> {
    let field = |given: String| match given.split_once('=') {
        Some((field, value)) if !field.is_empty() => Ok((field.to_owned(), value.to_owned())),
        _ => Err(Problem::invalid(format!("metadata is FIELD=VALUE, not {given:?}"))),
    };
    let metadata = params.all("metadata").into_iter().map(field).collect::<Result<_, _>>()?;
    Ok(GraphFilter { kinds: params.all("kind"), tags: params.all("tag"), metadata })
}
