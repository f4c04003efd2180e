//! The two verbs of a model.

use alloc::vec::Vec;

use crate::codec::{CodecError, Decoder, Encoder};
use crate::{Effects, Entry, History, ModelId, Position, ReadError, Timestamp, Touch};

/// The position and time of a decision. Ids and times come from here and from
/// [`Placement`](crate::Placement), so that every replay gives the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// The position of the record.
    pub position: Position,
    /// The time of the record: never less than that of the record before.
    pub time: Timestamp,
}

/// A deterministic state machine over the entries of one [`ModelId`].
///
/// Its state is what applying every entry of the model, in log order, to [`Default::default`]
/// gives; nothing else may flow into it.
pub trait Model: Default {
    /// The number of the model in its entries.
    const ID: ModelId;
    /// A request of a caller.
    type Command<'c>;
    /// The answer to an accepted command. It holds once the commit is acknowledged.
    type Reply;
    /// Why a command is refused, with the facts that conflict. A refusal is a response, not an
    /// error.
    type Refusal;

    /// Passes each resource that a command touches to `touch`, with the operation on it. A name
    /// that stands for another resource, such as the id of a job, is looked up in this state. An
    /// object that does not exist touches nothing: `decide` then refuses the command.
    ///
    /// Implementations match every command, so a command without permissions does not compile.
    ///
    /// # Errors
    /// When the history that the look-up needs cannot be read.
    fn touches(
        &self,
        history: &dyn History,
        command: &Self::Command<'_>,
        touch: &mut dyn FnMut(Touch<'_>),
    ) -> Result<(), ReadError>;

    /// The refusal of a command that names an object of a resource, such as a job of a queue, when
    /// the object does not exist. A client that may not describe the resource gets this refusal.
    fn unknown_object(command: &Self::Command<'_>) -> Option<Self::Refusal> {
        let _ = command;
        None
    }

    /// Decides all of this model's commands of one commit, in order, against the state before the
    /// commit.
    ///
    /// Pushes the entries that make them happen and one reply per command. A later command sees
    /// what an earlier one of the same commit does. Pure: nothing but `effects` and `replies`
    /// changes, and those are dropped when any model refuses.
    ///
    /// # Errors
    /// [`DecideError::Refused`] with the index of the refused command; [`DecideError::Unreadable`]
    /// when the history that the decision needs can't be read.
    fn decide(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Self::Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Self::Reply>,
    ) -> Result<(), DecideError<Self::Refusal>>;

    /// Checks that this state holds everything that the entry refers to, so that [`Model::apply`]
    /// can apply the entry. In a log without losses the check always succeeds. A salvage checks
    /// each entry that follows lost records.
    ///
    /// # Errors
    /// The reason, such as an unknown queue.
    fn check_applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str>;

    /// Applies an entry of this model to the state. The live database, a restart, a follower and
    /// the simulator call the same function.
    ///
    /// It cannot fail: `decide` accepted the entry, and the log verified it. An entry of an unknown
    /// form is a broken invariant, and panics.
    fn apply(&mut self, entry: &Entry<'_>);

    /// Whether an applied entry of this model still counts: the state refers to it, or a reader may
    /// ask for it. History counts while its time is not before `history_from`.
    ///
    /// Compaction drops what does not, so the answer must never become true again, whatever is
    /// committed later. A restart goes back to a checkpoint, and never needs an entry from before
    /// it to build the state.
    fn survives(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        let _ = (entry, history_from);
        true
    }

    /// Writes the whole state. Equal states write equal bytes.
    fn save(&self, out: &mut Encoder);

    /// Passes the bytes of [`Model::save`] to `sink`, a part at a time. A model with a large state
    /// never has all of them in memory.
    fn save_in_parts(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut all = Encoder::new();
        self.save(&mut all);
        sink(all.as_slice());
    }

    /// Reads a state that [`Model::save`] wrote.
    ///
    /// # Errors
    /// When the bytes are not such a state; the caller then replays instead.
    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError>;
}

/// Why a decision failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecideError<R> {
    /// A command is refused, and with it the commit.
    Refused {
        /// The index of the command among those given to `decide`.
        command: usize,
        /// Why.
        refusal: R,
    },
    /// The history that the decision needs can't be read.
    Unreadable(ReadError),
}

impl<R> From<ReadError> for DecideError<R> {
    fn from(error: ReadError) -> Self {
        DecideError::Unreadable(error)
    }
}
