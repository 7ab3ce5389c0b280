//! Two tasks of a slave's connection: one reads the slave's reports, the other writes the frames of the thread
//! `ha-master`.

use net::Stream;
use replica::transfer::PeerId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use wire::ha::switch::SlaveFrame;
use wire::ha::{FrameError, Protocol};

/// Event from the task of a connection to the thread.
pub(super) enum Event {
    Received(SlaveFrame),
    Malformed(FrameError),
    /// The socket took the bytes.
    Written,
    /// Frame whose body was read from the disk. `None` if it is unreadable.
    Read(Option<Vec<u8>>),
    Closed,
}

/// Reads the frames of a slave.
pub(super) async fn read(
    mut reader: ReadHalf<Stream>,
    protocol: Protocol,
    id: PeerId,
    events: mpsc::Sender<(PeerId, Event)>,
) {
    let mut received = Vec::with_capacity(1024);
    while let Ok(1..) = reader.read_buf(&mut received).await {
        loop {
            let event = match protocol.decode_slave(&received) {
                Ok(None) => break,
                Ok(Some((found, used))) => {
                    received.drain(..used);
                    Event::Received(found)
                }
                Err(error) => {
                    let _ = events.send((id, Event::Malformed(error))).await;
                    return;
                }
            };
            if events.send((id, event)).await.is_err() {
                return;
            }
        }
    }
    let _ = events.send((id, Event::Closed)).await;
}

/// Writes buffers to a slave.
pub(super) async fn write(
    mut writer: WriteHalf<Stream>,
    mut buffers: mpsc::Receiver<Vec<u8>>,
    id: PeerId,
    events: mpsc::Sender<(PeerId, Event)>,
) {
    while let Some(buffer) = buffers.recv().await {
        let written = async {
            writer.write_all(&buffer).await?;
            // TLS keeps what the socket did not take until it is flushed.
            writer.flush().await
        };
        let event = if written.await.is_ok() { Event::Written } else { Event::Closed };
        if events.send((id, event)).await.is_err() {
            return;
        }
    }
}
