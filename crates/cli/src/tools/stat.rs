//! `quire stat`: the statistics page of each shard.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use quire::tools;

use super::page::PageForm;
use crate::failure::Result;

/// Arguments of `quire stat`.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// Directory of the database; may be in use
    #[arg(value_name = "DIR")]
    data: PathBuf,
    /// Print one JSON object per line, one for each shard
    #[arg(long)]
    json: bool,
}

impl Stat {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        for shard in tools::shards(&self.data)? {
            let page = shard.page()?;
            let form = PageForm::of(&shard.name, &page);
            match self.json {
                true => form.json(out)?,
                false => form.text(out)?,
            }
        }
        Ok(())
    }
}
