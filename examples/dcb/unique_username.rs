//! Unique usernames: claimed by registering or renaming. A name is free again after the account is
//! closed or renamed. A name that was given up is free only after some days.

use quire::events::{NewEvent, QueryItem};
use quire::{EventStore, Project, Projection, Timestamp};

use crate::TRIES;
use crate::scenario::{Answer, field};

/// For how long a name that was given up stays claimed, in days.
const RETENTION_DAYS: u64 = 3;

const DAY_MICROS: u64 = 24 * 60 * 60 * 1_000_000;

/// Whether a name is claimed at the time `now`.
fn is_claimed(name: &str, now: Timestamp) -> impl Project<State = bool> + use<> {
    let (name, tag) = (name.to_owned(), format!("username:{name}"));
    let types =
        QueryItem::new().event_type("AccountRegistered").event_type("AccountClosed").event_type("UsernameChanged");
    Projection::new(types.tag(&tag), false, move |claimed, event| {
        let days = now.as_micros().saturating_sub(event.time.as_micros()) / DAY_MICROS;
        *claimed = match event.event_type {
            "AccountRegistered" => true,
            "UsernameChanged" if field(event, "new") == name => true,
            _ => days <= RETENTION_DAYS,
        };
    })
}

fn taken(name: &str) -> String {
    format!("Username \"{name}\" is claimed")
}

/// Registers an account.
pub(crate) fn register(store: &EventStore, name: &str, now: Timestamp) -> Answer {
    store.decide(
        TRIES,
        || is_claimed(name, now),
        |claimed| {
            if claimed {
                return Err(taken(name));
            }
            Ok(vec![NewEvent::new("AccountRegistered").tag(format!("username:{name}"))])
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{check, with_store};

    #[test]
    fn a_name_is_claimed_while_an_account_has_it_and_three_days_more() {
        let register = |store: &EventStore, now| register(store, "u1", now);
        let (registered, claimed) = (Ok("AccountRegistered username:u1"), Err("Username \"u1\" is claimed"));
        check("", register, registered);
        check("AccountRegistered username:u2", register, registered);
        check("AccountRegistered username:u1", register, claimed);
        let day = 24 * 60;
        let closed =
            |days| format!("{}m AccountRegistered username:u1\n{}m AccountClosed username:u1", 9 * day, days * day);
        check(&closed(3), register, claimed);
        check(&closed(4), register, registered);
        let renamed = |old: &str, new: &str, days| {
            let registered = format!("{}m AccountRegistered username:{old}\n", 9 * day);
            registered + &format!("{}m UsernameChanged username:{old} username:{new} | old={old} new={new}", days * day)
        };
        check(&renamed("u1", "u1changed", 4), register, registered);
        check(&renamed("u1", "u1changed", 3), register, claimed);
        check(&renamed("other", "u1", 4), register, claimed);
    }

    #[test]
    fn of_ten_who_want_the_same_of_a_hundred_names_one_gets_it() {
        with_store("", |database, store| {
            std::thread::scope(|scope| {
                let racers: Vec<_> = (0..10)
                    .map(|_| {
                        scope.spawn(|| {
                            let register = |name: u32| register(store, &format!("u{name}"), database.now());
                            (0..100).filter(|name| register(*name).expect("no error").is_ok()).count()
                        })
                    })
                    .collect();
                let made: usize = racers.into_iter().map(|racer| racer.join().expect("no panic")).sum();
                assert_eq!(made, 100);
            });
            assert_eq!(store.head().expect("readable").get(), 100);
        });
    }
}
