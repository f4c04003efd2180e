//! The options of a comparison.

use super::Durability;

/// The options of a comparison; see the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) rounds: usize,
    /// Only loads whose names begin with one of these; all when empty.
    loads: Vec<String>,
    durability: Option<Durability>,
}

impl Options {
    /// Parses the arguments after `bench-peers PEER`, for these `loads`.
    ///
    /// # Errors
    /// For an unknown flag, or when the flags leave no load.
    pub(super) fn parse(
        peer: &str,
        flags: &[String],
        loads: impl Iterator<Item = (&'static str, Durability)>,
    ) -> Result<Self, String> {
        let mut options = Options { rounds: 3, loads: Vec::new(), durability: None };
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            let value = flags.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--rounds" => {
                    let rounds = value.parse().ok().filter(|rounds| *rounds > 0);
                    options.rounds = rounds.ok_or_else(|| format!("invalid number of rounds {value}"))?;
                }
                "--case" => options.loads.push(value.clone()),
                "--durability" if value == "os" => options.durability = Some(Durability::Os),
                "--durability" if value == "sync" => options.durability = Some(Durability::Sync),
                _ => return Err(format!("`bench-peers {peer}` does not take `{flag} {value}`")),
            }
        }
        let loads: Vec<_> = loads.collect();
        if loads.iter().all(|(name, durability)| !options.wants(name, *durability)) {
            let names: Vec<_> = loads.iter().map(|(name, _)| *name).collect();
            return Err(format!("unknown load: use {}", names.join(", ")));
        }
        Ok(options)
    }

    /// Whether to run a load.
    pub(super) fn wants(&self, load: &str, durability: Durability) -> bool {
        let is_named = self.loads.is_empty() || self.loads.iter().any(|name| load.starts_with(name.as_str()));
        is_named && self.durability.is_none_or(|wanted| wanted == durability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADS: [(&str, Durability); 3] =
        [("produce-128", Durability::Os), ("produce-128", Durability::Sync), ("consume", Durability::Os)];

    fn wanted(flags: &[&str]) -> Result<Vec<(&'static str, Durability)>, String> {
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let options = Options::parse("kafka", &flags, LOADS.into_iter())?;
        Ok(LOADS.into_iter().filter(|(name, durability)| options.wants(name, *durability)).collect())
    }

    #[test]
    fn flags_choose_the_loads() {
        assert_eq!(wanted(&[]), Ok(LOADS.to_vec()));
        assert_eq!(wanted(&["--case", "cons", "--case", "produce"]), Ok(LOADS.to_vec()));
        let loads = wanted(&["--case", "produce-128", "--durability", "sync", "--rounds", "1"]);
        assert_eq!(loads, Ok(vec![("produce-128", Durability::Sync)]));
    }

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        assert!(wanted(&["--case", "nothing"]).unwrap_err().contains("use produce-128"));
        assert!(wanted(&["--case", "consume", "--durability", "sync"]).unwrap_err().contains("use produce-128"));
        assert!(wanted(&["--rounds", "0"]).unwrap_err().contains("invalid number of rounds 0"));
        assert!(wanted(&["--rounds"]).unwrap_err().contains("needs a value"));
        assert!(wanted(&["--fast", "yes"]).unwrap_err().contains("--fast"));
    }
}
