//! The settings of tokens, as plain data.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Which tokens are accepted, and what they stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// The provider: the claim `iss` of each token, byte for byte.
    pub issuer: String,
    /// The name of this server at the provider, which the claim `aud` must have.
    pub audience: String,
    /// The file of the provider's public keys, as a JSON Web Key Set (RFC 7517).
    pub keys: PathBuf,
    /// The claim with the name of the principal. Default of `quire serve`: `sub`.
    pub principal_claim: String,
    /// The claim with the groups of the principal. `None` gives tokens no roles.
    pub roles_claim: Option<String>,
    /// The roles of the groups. Other groups have none.
    pub roles: Vec<RoleMapping>,
}

/// A role of the members of a group. Written as `GROUP => ROLE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleMapping {
    /// The group, as the provider names it.
    pub group: String,
    /// The role.
    pub role: String,
}

impl OidcSettings {
    /// Returns every problem of the settings; empty when they are valid. The file is not read.
    pub fn problems(&self) -> Vec<String> {
        let texts =
            [("issuer", &self.issuer), ("audience", &self.audience), ("principal claim", &self.principal_claim)];
        let mut problems: Vec<_> =
            texts.iter().filter(|(_, text)| text.is_empty()).map(|(name, _)| format!("the {name} is empty")).collect();
        match (&self.roles_claim, &self.roles[..]) {
            (None, [_, ..]) => problems.push("roles of groups need a roles claim".to_owned()),
            (Some(_), []) => problems.push("a roles claim needs roles of groups".to_owned()),
            _ => {}
        }
        problems
    }
}

impl FromStr for RoleMapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once("=>").map(|(group, role)| (group.trim(), role.trim()));
        match parts {
            Some((group, role)) if !group.is_empty() && !role.is_empty() => {
                Ok(RoleMapping { group: group.to_owned(), role: role.to_owned() })
            }
            _ => Err(format!("expected GROUP => ROLE, got {text:?}")),
        }
    }
}

impl fmt::Display for RoleMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} => {}", self.group, self.role)
    }
}
