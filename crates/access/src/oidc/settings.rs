//! The settings of tokens, as plain data.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::url::is_protected;
use crate::browser;

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
    /// The sign-in of browsers at the provider. `None` has none.
    pub login: Option<LoginSettings>,
}

/// The sign-in of browsers at the provider: the authorization code flow (OpenID Connect Core 1.0,
/// section 3.1) with PKCE (RFC 7636).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginSettings {
    /// The id of this server as a client of the provider, which the claim `aud` of ID tokens must
    /// have.
    pub client_id: String,
    /// The file of the client's secret, read at each sign-in. `None` for a client without a secret.
    pub client_secret: Option<PathBuf>,
    /// The address of this server for browsers, such as `https://quire.example`.
    pub public_url: String,
    /// The scopes that the server asks for, besides `openid`.
    pub scopes: Vec<String>,
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
        if let Some(login) = &self.login {
            if !is_protected(&self.issuer) || self.issuer.contains('?') {
                let message = "to sign in, the issuer must be an https URL without a query, got";
                problems.push(format!("{message} {:?}", self.issuer));
            }
            problems.extend(login.problems());
        }
        problems
    }
}

impl LoginSettings {
    /// Returns the URL to which the provider sends browsers back: the public URL with the path
    /// `/ui/login/callback`. The provider has to know it.
    pub fn redirect_url(&self) -> String {
        format!("{}/ui/login/callback", self.public_url)
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.client_id.is_empty() {
            problems.push("the client id is empty".to_owned());
        }
        if browser::problem_of_origin(&self.public_url).is_some() || !is_protected(&self.public_url) {
            let message = "the public URL must be https://HOST with its port and without a path, got";
            problems.push(format!("{message} {:?}", self.public_url));
        }
        // RFC 6749, section 3.3.
        let is_scope = |byte: u8| byte.is_ascii_graphic() && !b"\"\\".contains(&byte);
        for scope in &self.scopes {
            if scope.is_empty() || !scope.bytes().all(is_scope) {
                problems.push(format!("a scope must be printable ASCII characters without spaces, got {scope:?}"));
            }
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
