//! A TCP connection from the client to the server.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{External, Family};

/// How long either end waits for the other, a move with lost retransmissions included.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to a server that sends back what it gets.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    exchanges: u64,
}

impl Connection {
    /// Connects through the IPv4 egress IP.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn open(external: &External) -> Result<Self> {
        Self::open_over(external, Family::Ipv4)
    }

    /// Connects through the egress IP of `family`.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn open_over(external: &External, family: Family) -> Result<Self> {
        let listener = external
            .outside()
            .enter(|| TcpListener::bind(family.server()))??;
        let server = listener.local_addr()?;
        // It ends with the connection, or when nothing has come for too long.
        std::thread::spawn(move || serve(&listener));
        let stream = external
            .client()
            .enter(|| TcpStream::connect_timeout(&server, PATIENCE))?
            .with_context(|| format!("connect to {server}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            exchanges: 0,
        })
    }

    /// Sends something, waits until it is back, and says how long that took.
    ///
    /// # Errors
    /// The connection is dead.
    pub fn exchange(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.exchanges += 1;
        let sent = self.exchanges.to_be_bytes();
        self.stream.write_all(&sent).context("send")?;
        let mut back = [0; 8];
        self.stream.read_exact(&mut back).context("receive")?;
        ensure!(back == sent, "{back:?} came back for {sent:?}");
        Ok(began.elapsed())
    }
}

fn serve(listener: &TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut buffer = [0; 8];
    loop {
        stream.read_exact(&mut buffer)?;
        stream.write_all(&buffer)?;
    }
}
