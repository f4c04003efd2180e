//! The tokens of an OpenID provider that `quire serve` accepts.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use quire_access::{OidcSettings, RoleMapping, TokenVerifier};

use crate::failure::{CommandError, Result};

/// The flags. With an issuer, HTTP and gRPC accept its tokens in the place of API keys, and the
/// Kafka protocol accepts them over OAUTHBEARER.
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
}

impl OidcArgs {
    /// Returns the validated settings; `None` without an issuer. The file is not read.
    ///
    /// # Errors
    /// When a setting is invalid. The message names each one.
    pub(crate) fn settings(&self) -> Result<Option<OidcSettings>> {
        let invalid = |problem: &str| Err(CommandError::new(format!("invalid settings of tokens: {problem}")));
        let settings = match (&self.oidc_issuer, &self.oidc_audience, &self.oidc_keys) {
            (Some(issuer), Some(audience), Some(keys)) => OidcSettings {
                issuer: issuer.clone(),
                audience: audience.clone(),
                keys: keys.clone(),
                principal_claim: self.oidc_principal_claim.clone(),
                roles_claim: self.oidc_roles_claim.clone(),
                roles: self.roles.clone(),
            },
            (None, None, None) if self.oidc_roles_claim.is_none() && self.roles.is_empty() => return Ok(None),
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
