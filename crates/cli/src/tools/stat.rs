//! `quire stat`: the statistics page of each shard of a directory, or the figures of a server.

use std::io::Write;

use clap::Args;
use quire::tools;

use super::location::{ServedToolLocation, ToolPlace};
use super::page::PageForm;
use super::server_stat::ServerStatForm;
use crate::failure::Result;

/// Arguments of `quire stat`.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    location: ServedToolLocation,
    /// Print one JSON object per line, one for each shard, or one for a server
    #[arg(long)]
    json: bool,
}

impl Stat {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let directory = match self.location.place()? {
            ToolPlace::Directory(directory) => directory,
            ToolPlace::Server(client) => {
                let form = ServerStatForm::read(&client)?;
                return Ok(if self.json { form.json(out) } else { form.text(out) }?);
            }
        };
        for shard in tools::shards(&directory)? {
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
