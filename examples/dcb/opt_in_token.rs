//! Opt-in tokens: a one-time password confirms the sign-up that it was made for, once, and within
//! an hour.

use quire::events::{NewEvent, QueryItem};
use quire::{EventStore, Projection, Timestamp};

use crate::TRIES;
use crate::scenario::{Answer, field};

/// For how long a token is good, in minutes.
const VALID_MINUTES: u64 = 60;

#[derive(Clone, Default)]
struct Pending {
    name: String,
    initiated: Timestamp,
    is_used: bool,
}

/// Confirms a sign-up.
pub(crate) fn confirm(store: &EventStore, email: &str, token: &str, now: Timestamp) -> Answer {
    let (email, otp) = (format!("email:{email}"), format!("otp:{token}"));
    let pending = || {
        let types = QueryItem::new().event_type("SignUpInitiated").event_type("SignUpConfirmed");
        Projection::new(types.tag(&email).tag(&otp), None::<Pending>, |pending, event| match pending {
            Some(pending) if event.event_type == "SignUpConfirmed" => pending.is_used = true,
            _ => {
                *pending =
                    Some(Pending { name: field(event, "name").to_owned(), initiated: event.time, is_used: false })
            }
        })
    };
    store.decide(TRIES, pending, |pending| {
        let is_good = |pending: &Pending| {
            now.as_micros().saturating_sub(pending.initiated.as_micros()) <= VALID_MINUTES * 60_000_000
        };
        let Some(pending) = pending.filter(is_good) else {
            return Err("No pending sign-up for this OTP / email address".to_owned());
        };
        if pending.is_used {
            return Err("OTP was already used".to_owned());
        }
        let confirmed = NewEvent::new("SignUpConfirmed").tag(email.as_str()).tag(otp.as_str());
        Ok(vec![confirmed.data(format!("name={}", pending.name))])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::check;

    #[test]
    fn a_token_confirms_its_own_sign_up_once_and_in_time() {
        let confirm = |store: &EventStore, now| confirm(store, "john@example.com", "444444", now);
        let unknown = Err("No pending sign-up for this OTP / email address");
        check("", confirm, unknown);
        check("SignUpInitiated email:jane@example.com otp:444444 | name=Jane", confirm, unknown);
        check("SignUpInitiated email:john@example.com otp:555555 | name=John", confirm, unknown);
        let initiated = |minutes| format!("{minutes}m SignUpInitiated email:john@example.com otp:444444 | name=John\n");
        let used = initiated(5) + "SignUpConfirmed email:john@example.com otp:444444 | name=John";
        check(&used, confirm, Err("OTP was already used"));
        let confirmed = Ok("SignUpConfirmed email:john@example.com otp:444444 | name=John");
        check(&initiated(0), confirm, confirmed);
        check(&initiated(60), confirm, confirmed);
        check(&initiated(61), confirm, unknown);
    }
}
