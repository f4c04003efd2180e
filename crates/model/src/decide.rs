//! The loop in which a model decides the commands of a commit.

use crate::{DecideError, ReadError};

/// Why the decision on one command ends without a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop<R> {
    /// The command is refused.
    Refused(R),
    /// The history that the decision needs cannot be read.
    Unreadable(ReadError),
}

impl<R> Stop<R> {
    /// The denial of the whole commit, on account of the command at this index.
    pub fn at(self, command: usize) -> DecideError<R> {
        match self {
            Stop::Refused(refusal) => DecideError::Refused { command, refusal },
            Stop::Unreadable(error) => DecideError::Unreadable(error),
        }
    }
}

impl<R> From<ReadError> for Stop<R> {
    fn from(error: ReadError) -> Self {
        Stop::Unreadable(error)
    }
}

/// Decides commands in order, each with its index. The first command that is not decided denies the
/// commit.
///
/// # Errors
/// The [`Stop`] of that command, as the contract states it.
#[inline]
pub fn decide_in_order<'c, C, R>(
    commands: &'c [C],
    mut decide: impl FnMut(usize, &'c C) -> Result<(), Stop<R>>,
) -> Result<(), DecideError<R>> {
    for (index, command) in commands.iter().enumerate() {
        decide(index, command).map_err(|stop| stop.at(index))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_first_command_that_stops_denies_the_commit_with_its_index() {
        let mut decided = Vec::new();
        let denied = decide_in_order(&[7, 8, 9], |index, command| {
            decided.push((index, *command));
            if *command == 8 { Err(Stop::Refused("eight")) } else { Ok(()) }
        });
        assert_eq!(denied, Err(DecideError::Refused { command: 1, refusal: "eight" }));
        assert_eq!(decided, [(0, 7), (1, 8)]);

        let error = ReadError::damaged(None, "torn");
        let denied = decide_in_order(&[7], |_, _| Err(Stop::<()>::from(error.clone())));
        assert_eq!(denied, Err(DecideError::Unreadable(error)));
    }
}
