//! The verifier of a server: its settings, and the keys of their file.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use quire::Timestamp;
use quire::system::Principal;

use super::jwk::ProviderKey;
use super::login::{LoginState, ProviderLogin};
use super::settings::OidcSettings;
use super::{WrongToken, claims, jwt};
use crate::file_stamp::FileStamp;

/// Largest file of keys that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Verifies tokens. The front ends of a server share it.
#[derive(Debug)]
pub struct TokenVerifier {
    settings: OidcSettings,
    keys: Mutex<LoadedKeys>,
    login: Option<LoginState>,
}

/// The keys, and the file that they are from.
#[derive(Debug)]
struct LoadedKeys {
    keys: Arc<[ProviderKey]>,
    /// The file at the last attempt to load it.
    tried: FileStamp,
}

impl TokenVerifier {
    /// Loads the keys of the settings. It does not connect to the provider.
    ///
    /// # Errors
    /// When settings are invalid or the file can't be used. The message names the setting or the
    /// file.
    pub fn load(settings: OidcSettings) -> io::Result<Arc<Self>> {
        if let problems @ [_, ..] = &settings.problems()[..] {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problems.join("; ")));
        }
        // Read before the file: a file that changes meanwhile has another stamp later.
        let tried = FileStamp::of(&settings.keys);
        let keys = read(&settings.keys)?;
        let login = settings.login.clone().map(|login| LoginState::new(&settings.issuer, login)).transpose()?;
        Ok(Arc::new(TokenVerifier { settings, keys: Mutex::new(LoadedKeys { keys, tried }), login }))
    }

    /// Returns the principal of a token at `now`. `None` for every token that is not accepted.
    pub fn verify(&self, token: &str, now: Timestamp) -> Option<Principal> {
        self.check(token, now).ok()
    }

    /// Returns the sign-in of browsers at the provider. `None` where the settings have none.
    pub fn login(&self) -> Option<ProviderLogin<'_>> {
        self.login.as_ref().map(|state| ProviderLogin { verifier: self, state })
    }

    pub(super) fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    fn check(&self, token: &str, now: Timestamp) -> Result<Principal, WrongToken> {
        claims::principal(&jwt::verified(token, &self.keys())?, &self.settings, now)
    }

    /// The keys of the file. A file that can't be used keeps the earlier keys, and is logged once.
    pub(super) fn keys(&self) -> Arc<[ProviderKey]> {
        let mut loaded = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let path = &self.settings.keys;
        let stamp = FileStamp::of(path);
        if loaded.tried != stamp {
            loaded.tried = stamp;
            match read(path) {
                Ok(keys) => loaded.keys = keys,
                Err(error) => {
                    let message = "can't load the keys of tokens; the previous ones stay in use";
                    tracing::error!(target: "quire::server", %error, "{message}");
                }
            }
        }
        Arc::clone(&loaded.keys)
    }
}

fn read(path: &Path) -> io::Result<Arc<[ProviderKey]>> {
    let at = |problem: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("can't use {} for tokens: {problem}", path.display()))
    };
    let metadata = fs::metadata(path).map_err(|error| at(&error))?;
    // A pipe would wait for its other end.
    if !metadata.is_file() {
        return Err(at(&"not a regular file"));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(at(&format_args!("the file has {} bytes; the limit is {FILE_BYTES_MAX}", metadata.len())));
    }
    let text = fs::read(path).map_err(|error| at(&error))?;
    Ok(ProviderKey::parse_set(&text).map_err(|problem| at(&problem))?.into())
}
