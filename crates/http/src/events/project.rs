//! Projections of events of the built-in kinds: the number of matches, whether any matches, the
//! last one, the sum of a field.
//!
//! One pass computes all of them. The returned condition is the one under which a decision
//! based on them is appended.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use axum::extract::State;
use quire::events::{Condition, EventView, Query};
use quire::{Project, ProjectedState, StepBudget, steps_of_parsing};
use quire_access::BoundedRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::shown;
use crate::app::App;
use crate::body::Body;
use crate::error::Problem;
use crate::memory::Claim;
use crate::params::{Params, PathNames};
use crate::response::JsonResponse;
use quire_api::reply::{ProjectReply, TagReply};
use quire_api::request::QueryRequest;

/// Maximum number of projections in a request.
const PROJECTIONS_MAX: usize = 256;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProjectRequest<'r> {
    /// By the name of its state.
    #[serde(borrow)]
    projections: BTreeMap<String, ProjectionRequest<'r>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProjectionRequest<'r> {
    #[serde(borrow)]
    query: QueryRequest<'r>,
    fold: FoldRequest,
}

/// What to compute from the events.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FoldRequest {
    Count,
    Exists,
    Last,
    /// The sum of a field of the data's JSON object; events without it, or with a value that is not
    /// a number, add nothing.
    Sum(String),
}

/// A projection being computed.
#[derive(Debug)]
struct RunningProjection {
    query: Query<'static>,
    fold: FoldRequest,
    state: Value,
    /// The last event, in the form of a response.
    last: Option<Box<RawValue>>,
    /// The memory of the request's states.
    claim: Rc<RefCell<Claim>>,
    /// The steps of the request: each parsed event claims some by its length.
    budget: Option<StepBudget>,
    /// Why there was too little memory, or too few steps.
    refused: Option<Problem>,
}

impl RunningProjection {
    fn new(request: &ProjectionRequest<'_>, claim: Rc<RefCell<Claim>>, budget: Option<&StepBudget>) -> Self {
        let state = match request.fold {
            FoldRequest::Count | FoldRequest::Sum(_) => json!(0),
            FoldRequest::Exists => json!(false),
            FoldRequest::Last => Value::Null,
        };
        let mut query = request.query.query().into_owned();
        if matches!(request.fold, FoldRequest::Last) {
            query.items.iter_mut().for_each(|item| item.only_last_event = true);
        }
        let (fold, budget) = (request.fold.clone(), budget.cloned());
        RunningProjection { query, fold, state, last: None, claim, budget, refused: None }
    }

    /// Replaces the last event, within the free memory.
    fn keep(&mut self, event: &EventView<'_>) {
        let (last, mut claim) = (raw(&shown(event)), self.claim.borrow_mut());
        claim.release(self.last.take().map_or(0, |before| before.get().len()));
        match claim.grow(last.get().len()) {
            Ok(()) => self.last = Some(last),
            Err(problem) => self.refused = Some(problem),
        }
    }
}

impl Project for RunningProjection {
    /// `None` for a sum that is out of range.
    type State = Result<Option<Box<RawValue>>, Problem>;

    fn ask(&self, query: &mut Query<'static>) {
        query.items.extend(self.query.items.iter().cloned());
    }

    fn see(&mut self, event: &EventView<'_>) {
        if self.refused.is_some() || !self.query.matches(event) {
            return;
        }
        if let FoldRequest::Last | FoldRequest::Sum(_) = self.fold
            && let Some(budget) = &self.budget
            && let Err(error) = budget.claim(steps_of_parsing(event.data.len()))
        {
            self.refused = Some(quire::Error::from(error).into());
            return;
        }
        match &self.fold {
            FoldRequest::Count => self.state = json!(self.state.as_u64().unwrap_or_default() + 1),
            FoldRequest::Exists => self.state = json!(true),
            FoldRequest::Last => self.keep(event),
            FoldRequest::Sum(field) => self.state = sum(&self.state, event.data, field),
        }
    }

    fn end(self) -> Self::State {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let is_beyond = self.state.is_null() && matches!(self.fold, FoldRequest::Sum(_));
        Ok((!is_beyond).then(|| self.last.unwrap_or_else(|| raw(&self.state))))
    }
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("a response is serializable")
}

/// Adds a field's number to the sum. The sum stays an integer while both are and it does not
/// overflow; it becomes `null` when it is out of range.
fn sum(sum: &Value, data: &[u8], field: &str) -> Value {
    if sum.is_null() {
        return Value::Null;
    }
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(data).unwrap_or_default();
    let Some(Ok(Value::Number(added))) = fields.get(field).map(|value| serde_json::from_str(value.get())) else {
        return sum.clone();
    };
    match (sum.as_i64(), added.as_i64()) {
        (Some(sum), Some(added)) if sum.checked_add(added).is_some() => json!(sum + added),
        _ => json!(sum.as_f64().unwrap_or_default() + added.as_f64().unwrap_or_default()),
    }
}

/// `POST /v1/events/{store}/project`: states, and the condition under which they are current.
pub(crate) async fn project(
    State(app): State<Arc<App>>,
    PathNames(store): PathNames<String>,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    body.bounded(BoundedRequest::begin(&app.database()), move |database, body| {
        let request: ProjectRequest<'_> = body.parse()?;
        let asked = request.projections.len();
        if !(1..=PROJECTIONS_MAX).contains(&asked) {
            return Err(Problem::invalid(format!("{asked} projections: 1 to {PROJECTIONS_MAX}")));
        }
        let claim = Rc::new(RefCell::new(app.memory.claim()));
        let folding = |projection| RunningProjection::new(projection, Rc::clone(&claim), database.budget());
        let foldings: Vec<RunningProjection> = request.projections.values().map(folding).collect();
        let ProjectedState { state, condition, head } = database.events(&store).project(foldings)?;
        let states = request.projections.into_keys().zip(state).map(|(name, state)| match state? {
            Some(state) => Ok((name, state)),
            None => Err(Problem::invalid(format!("the sum {name:?} exceeds the range of JSON numbers"))),
        });
        let states = states.collect::<Result<_, Problem>>()?;
        let claim = Rc::into_inner(claim).expect("the projections have ended").into_inner();
        JsonResponse::within(claim, &ProjectReply { states, head: head.get(), condition: as_request(&condition) })
    })
    .await
}

/// The condition in the form of an append.
fn as_request(condition: &Condition<'_>) -> Value {
    let item = |item: &quire::events::QueryItem<'_>| {
        let tags: Vec<TagReply<'_>> = item.tags.iter().map(|tag| TagReply((&**tag).into())).collect();
        json!({ "types": item.types, "tags": tags })
    };
    let items: Vec<Value> = condition.query().items.iter().map(item).collect();
    match condition {
        Condition::FailIfMatches { after, .. } => {
            json!({ "fail_if_events_match": { "items": items }, "after": after.get() })
        }
        Condition::LastIs { position, .. } => json!({ "last_is": { "items": items, "position": position.get() } }),
    }
}
