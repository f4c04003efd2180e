//! The tokens of an OpenID provider that `quire serve` accepts, and the sign-in of browsers there.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use quire_access::{LoginSettings, OidcSettings, RoleMapping, TokenVerifier};

use crate::failure::{CommandError, Result};

/// The flags. With an issuer, HTTP and gRPC accept its tokens in the place of API keys, and the
/// Kafka protocol accepts them over OAUTHBEARER. With a client id, the dashboard signs in at the
/// provider.
#[derive(Debug, Args)]
pub(crate) struct OidcArgs {
    /// Accept tokens of this OpenID provider, the claim iss of its tokens
    #[arg(long, value_name = "URL")]
    oidc_issuer: Option<String>,
    /// Name of this server at the provider, which the claim aud must have
    #[arg(long, value_name = "NAME")]
    oidc_audience: Option<String>,
    /// File of the provider's public keys, a JSON Web Key Set; loaded again after it has changed
    #[arg(long, value_name = "FILE")]
    oidc_keys: Option<PathBuf>,
    /// Claim with the name of the principal
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    oidc_principal_claim: String,
    /// Claim with the groups of the principal
    #[arg(long, value_name = "CLAIM")]
    oidc_roles_claim: Option<String>,
    /// Role of the members of a group, for example 'ops => operator'; can be repeated
    #[arg(id = "oidc-role", long, value_name = "GROUP => ROLE")]
    roles: Vec<RoleMapping>,
    /// Let people sign in to the dashboard at the provider, as this client of the provider
    #[arg(long, value_name = "NAME")]
    oidc_client_id: Option<String>,
    /// File of the client's secret; without it, the client has none
    #[arg(long, value_name = "FILE")]
    oidc_client_secret: Option<PathBuf>,
    /// Address of this server for browsers; the provider sends them to URL/ui/login/callback
    #[arg(long, value_name = "URL")]
    oidc_public_url: Option<String>,
    /// Scope to ask for when a person signs in, besides openid; can be repeated
    #[arg(id = "oidc-scope", long, value_name = "SCOPE")]
    scopes: Vec<String>,
}

impl OidcArgs {
    /// Returns the validated settings; `None` without an issuer. The file is not read.
    ///
    /// # Errors
    /// When a setting is invalid. The message names each one.
    pub(crate) fn settings(&self) -> Result<Option<OidcSettings>> {
        let invalid = |problem: &str| Err(CommandError::new(format!("invalid settings of tokens: {problem}")));
        let login = match (&self.oidc_client_id, &self.oidc_public_url) {
            (Some(client_id), Some(public_url)) => Some(LoginSettings {
                client_id: client_id.clone(),
                client_secret: self.oidc_client_secret.clone(),
                public_url: public_url.clone(),
                scopes: self.scopes.clone(),
            }),
            (None, None) if self.oidc_client_secret.is_none() && self.scopes.is_empty() => None,
            _ => return invalid("oidc_client_id and oidc_public_url need each other"),
        };
        let settings = match (&self.oidc_issuer, &self.oidc_audience, &self.oidc_keys) {
            (Some(issuer), Some(audience), Some(keys)) => OidcSettings {
                issuer: issuer.clone(),
                audience: audience.clone(),
                keys: keys.clone(),
                principal_claim: self.oidc_principal_claim.clone(),
                roles_claim: self.oidc_roles_claim.clone(),
                roles: self.roles.clone(),
                login,
            },
            (None, None, None) if self.oidc_roles_claim.is_none() && self.roles.is_empty() && login.is_none() => {
                return Ok(None);
            }
            _ => return invalid("oidc_issuer, oidc_audience and oidc_keys need each other"),
        };
        match &settings.problems()[..] {
            [] => Ok(Some(settings)),
            problems => invalid(&problems.join("; ")),
        }
    }

    /// Loads the keys.
    ///
    /// # Errors
    /// When a setting is invalid, or the file can't be used.
    pub(crate) fn load(&self) -> Result<Option<Arc<TokenVerifier>>> {
        let load = |settings| TokenVerifier::load(settings).map_err(|error| CommandError::new(error.to_string()));
        self.settings()?.map(load).transpose()
    }
}
