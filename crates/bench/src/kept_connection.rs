//! A connection over HTTP/1.1 that sends one request after another. It parses as little as it can:
//! a client that parses more takes the processors of the server.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use quire_cli::failure::{CommandError, Result};

/// A connection. See the module.
#[derive(Debug)]
pub(super) struct KeptConnection {
    stream: TcpStream,
    response: Vec<u8>,
}

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::at("ask the server over HTTP", error)
}

impl KeptConnection {
    /// Connects to `HOST:PORT`.
    ///
    /// # Errors
    /// When nobody listens.
    pub(super) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(KeptConnection { stream, response: Vec::new() })
    }

    /// Sends a request, and reads its response.
    ///
    /// # Errors
    /// When the status is not 200, or the connection ends.
    pub(super) async fn exchange(&mut self, request: &str) -> Result {
        self.stream.write_all(request.as_bytes()).await.map_err(failed)?;
        self.response.clear();
        while !is_whole(&self.response) {
            if self.stream.read_buf(&mut self.response).await.map_err(failed)? == 0 {
                return Err(failed("it closed the connection"));
            }
        }
        match self.response.starts_with(b"HTTP/1.1 200") {
            true => Ok(()),
            false => Err(failed(String::from_utf8_lossy(&self.response))),
        }
    }
}

/// Whether a response is complete: its headers, and as many bytes as they announce.
fn is_whole(response: &[u8]) -> bool {
    let Some(head) = response.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let headers = String::from_utf8_lossy(&response[..head]).to_ascii_lowercase();
    let length = headers.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| response.len() >= head + 4 + length)
}
