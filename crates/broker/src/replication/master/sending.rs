//! The log on its way to slaves: from memory into a connection's buffer, or from the disk by a thread that may wait for it.

use std::sync::atomic::Ordering;

use replica::transfer::PeerId;
use store::Read;
use wire::ha::FrameHead;

use super::connection::Event;
use super::{BUFFER_BYTES, Shell};

impl Shell {
    /// Adds a frame to a connection's buffer. Returns whether there is room for the next frame now.
    pub(super) fn send(&mut self, id: PeerId, head: FrameHead) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let (from, bytes) = head.piece();
        let length = bytes as usize;
        let begin = peer.buffer.len();
        head.encode(&mut peer.buffer);
        let body = peer.buffer.len();
        let read = match length {
            0 => Ok(Read::Done),
            length => self.parts.tables.store.read_log(from, length, &mut peer.buffer),
        };
        peer.progress.next.store(from.get() + length as u64, Ordering::Relaxed);
        peer.progress.sent.add(length as u64, self.parts.runtime.now_ms());
        match read {
            Ok(Read::Done) if peer.buffer.len() == body + length => {
                peer.is_held = peer.buffer.len() >= BUFFER_BYTES;
                !peer.is_held
            }
            Ok(_) => {
                peer.buffer.truncate(begin);
                self.read_from_disk(id, head);
                false
            }
            Err(error) => {
                tracing::error!(slave = %peer.progress.remote, offset = %from, %error, "the log cannot be read for a slave");
                self.forget(id);
                false
            }
        }
    }

    /// Reads the body of a frame on a thread that may wait for the disk.
    fn read_from_disk(&self, id: PeerId, head: FrameHead) {
        let (store, events) = (self.parts.tables.store.clone(), self.events.clone());
        tokio::task::spawn_blocking(move || {
            let (from, bytes) = head.piece();
            let length = bytes as usize;
            let mut frame = Vec::new();
            head.encode(&mut frame);
            let whole = frame.len() + length;
            let read = store.read_log_blocking(from, length, &mut frame);
            if let Err(error) = &read {
                tracing::error!(offset = %from, %error, "the log cannot be read for a slave");
            }
            let frame = (read.is_ok() && frame.len() == whole).then_some(frame);
            // The thread has ended if the channel has no receiver.
            let _ = events.blocking_send((id, Event::Read(frame)));
        });
    }

    /// Passes the collected bytes to the writing task of a connection.
    pub(super) fn flush(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if !peer.is_writing && !peer.buffer.is_empty() {
            // A writing task that has ended has said so.
            peer.is_writing = peer.outgoing.try_send(std::mem::take(&mut peer.buffer)).is_ok();
        }
    }
}
