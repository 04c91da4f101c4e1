//! Just enough HTTP to ask a daemon inside a namespace.
//!
//! HTTP/1.0 on purpose: the server then sends plain bytes until it closes the connection, no
//! chunks, and a stream of lines can be read as such.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::Netns;

/// How long a connection, or the next byte of an answer, may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// An answer.
#[derive(Debug)]
pub struct Response {
    /// The status code, such as 200.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Asks for `path` at `server` from inside `netns`.
///
/// # Errors
/// Nobody answers, or the answer is no HTTP. A status other than 200 is an answer, not an error.
pub fn get(netns: &Netns, server: SocketAddr, path: &str) -> Result<Response> {
    whole("GET", netns, server, path)
}

/// Posts nothing to `path` at `server` from inside `netns`.
///
/// # Errors
/// As [`get`].
pub fn post(netns: &Netns, server: SocketAddr, path: &str) -> Result<Response> {
    whole("POST", netns, server, path)
}

fn whole(method: &str, netns: &Netns, server: SocketAddr, path: &str) -> Result<Response> {
    let (status, mut reader) = request(method, netns, server, path)?;
    let mut body = String::new();
    reader
        .read_to_string(&mut body)
        .with_context(|| format!("read {server}{path}"))?;
    Ok(Response { status, body })
}

/// Asks for `path` and gives the body line by line as it comes, without a time limit.
///
/// # Errors
/// Nobody answers, or the status is not 200.
pub fn lines(
    netns: &Netns,
    server: SocketAddr,
    path: &str,
) -> Result<impl Iterator<Item = std::io::Result<String>> + Send + use<>> {
    let (status, reader) = request("GET", netns, server, path)?;
    ensure!(status == 200, "{server}{path} answered {status}");
    reader.get_ref().set_read_timeout(None)?;
    Ok(reader.lines())
}

fn request(
    method: &str,
    netns: &Netns,
    server: SocketAddr,
    path: &str,
) -> Result<(u16, BufReader<TcpStream>)> {
    let mut stream = netns
        .enter(|| TcpStream::connect_timeout(&server, PATIENCE))?
        .with_context(|| format!("connect to {server} in {}", netns.name()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {server}\r\nContent-Length: 0\r\n\r\n"
    )?;
    let mut reader = BufReader::new(stream);
    let status = read_head(&mut reader).with_context(|| format!("answer of {server}{path}"))?;
    Ok((status, reader))
}

/// Reads up to the empty line and returns the status code.
fn read_head(reader: &mut impl BufRead) -> Result<u16> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok())
        .with_context(|| format!("no HTTP status line: {line:?}"))?;
    while line.trim_end() != "" {
        line.clear();
        reader.read_line(&mut line)?;
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_consumed_up_to_the_body() {
        let mut answer = &b"HTTP/1.0 404 Not Found\r\ncontent-length: 2\r\n\r\nno"[..];
        assert_eq!(read_head(&mut answer).unwrap(), 404);
        assert_eq!(answer, b"no");
    }

    #[test]
    fn an_answer_that_is_no_http_is_an_error() {
        assert!(read_head(&mut &b"SSH-2.0-x\r\n"[..]).is_err());
    }
}
