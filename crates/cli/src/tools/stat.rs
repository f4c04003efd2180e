//! `quire stat`: what a database has done, from the statistics page of each shard.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use quire::tools;

use super::page::PageForm;
use crate::failure::Result;

/// What `quire stat` takes.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// The folder of the database; whoever has it open goes on
    #[arg(value_name = "DIR")]
    data: PathBuf,
    /// One JSON object a line, for each shard
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
