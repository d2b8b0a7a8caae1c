//! Writes against a server that replies in any order, writes less than it was sent, asks for repetition and loses what it
//! has not committed in restarts.

use std::sync::mpsc;

use super::*;
use crate::protocol::xdr::{Reader, Writer};

const SIZE: usize = 4096;

/// Pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

enum Request {
    Write(u64, Vec<u8>, Stable, WriteDone),
    Commit(mpsc::Sender<u64>),
}

/// The server: its thread executes requests in any order.
#[derive(Debug)]
struct Server(Mutex<mpsc::Sender<Request>>);

impl WriteServer for Server {
    fn write(&self, _: &Credential, _: &Handle, at: (u64, &[u8]), stable: Stable, done: WriteDone) {
        let request = Request::Write(at.0, at.1.to_vec(), stable, done);
        self.0.lock().expect("no panic").send(request).expect("a server");
    }

    fn commit(&self, _: &Credential, _: &Handle) -> Result<(u64, Option<Attributes>), Errno> {
        let (sender, receiver) = mpsc::channel();
        self.0.lock().expect("no panic").send(Request::Commit(sender)).expect("a server");
        Ok((receiver.recv().expect("a reply"), None))
    }
}

/// State of the server's thread.
struct Disk {
    numbers: Numbers,
    volatile: Vec<u8>,
    stable: Arc<Mutex<Vec<u8>>>,
    run: u64,
}

impl Disk {
    fn serve(mut self, requests: &mpsc::Receiver<Request>) {
        let mut waiting = Vec::new();
        while let Ok(request) = requests.recv() {
            waiting.push(request);
            while let Ok(request) = requests.recv_timeout(Duration::from_micros(50)) {
                waiting.push(request);
            }
            while !waiting.is_empty() {
                let at = self.numbers.below(waiting.len() as u64) as usize;
                self.execute(waiting.swap_remove(at));
            }
        }
    }

    fn execute(&mut self, request: Request) {
        if self.run < 6 && self.numbers.below(12) == 0 {
            // A restart; a server that restarts all the time never commits anything.
            self.volatile = self.stable.lock().expect("no panic").clone();
            self.run += 1;
        }
        match request {
            Request::Write(_, _, _, done) if self.numbers.below(50) == 0 => done(Err(Errno::AGAIN)),
            Request::Write(offset, data, stable, done) => {
                let is_short = self.numbers.below(10) == 0;
                let count = if is_short { 1 + self.numbers.below(data.len() as u64) as usize } else { data.len() };
                let at = offset as usize;
                self.volatile[at..at + count].copy_from_slice(&data[..count]);
                let is_stable = stable == Stable::FileSync;
                if is_stable {
                    self.stable.lock().expect("no panic")[at..at + count].copy_from_slice(&data[..count]);
                }
                done(Ok(WriteResult { count: count as u32, is_stable, verifier: self.run, attributes: None }));
            }
            Request::Commit(reply) => {
                self.stable.lock().expect("no panic").clone_from(&self.volatile);
                reply.send(self.run).expect("a caller");
            }
        }
    }
}

#[derive(Debug)]
struct File(Writes, Handle);

impl Written for File {
    fn writes(&self) -> &Writes {
        &self.0
    }

    fn handle(&self) -> &Handle {
        &self.1
    }

    fn on_written(&self, _: Option<&Attributes>, _: &CacheTimes) {}
}

fn handle() -> Handle {
    let mut out = Writer::default();
    out.opaque(&[1; 8]);
    Handle::read(&mut Reader::new(&out.0)).expect("a handle")
}

#[test]
fn what_was_flushed_is_on_the_disk_whatever_the_server_does() {
    for seed in 1..=12_u64 {
        let (sender, requests) = mpsc::channel();
        let stable = Arc::new(Mutex::new(vec![0; SIZE]));
        let disk = Disk {
            numbers: Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            volatile: vec![0; SIZE],
            stable: stable.clone(),
            run: 1,
        };
        let thread = std::thread::spawn(move || disk.serve(&requests));
        let context = Arc::new(WriteContext {
            server: Arc::new(Server(Mutex::new(sender))),
            budget: Budget::new(512),
            write_max: 64,
            times: CacheTimes::default(),
        });
        let file = Arc::new(File(Writes::default(), handle()));
        let by = Arc::new(Credential::nobody());
        let (mut numbers, mut model) = (Numbers(seed), vec![0; SIZE]);
        for step in 0..40 {
            let len = 1 + numbers.below(150) as usize;
            let offset = numbers.below((SIZE - len) as u64) as usize;
            let data: Vec<u8> = (0..len).map(|_| numbers.below(256) as u8).collect();
            model[offset..offset + len].copy_from_slice(&data);
            context.write(&file, &by, offset as u64, &data).expect("no error");
            if numbers.below(8) == 0 {
                context.flush(&file).expect("no error");
                assert!(*stable.lock().expect("no panic") == model, "seed {seed}, step {step}");
                assert!(!file.0.is_dirty() && file.0.end() == 0);
            }
        }
        context.flush(&file).expect("no error");
        assert!(*stable.lock().expect("no panic") == model, "seed {seed}");
        drop(context);
        thread.join().expect("a server");
    }
}

#[test]
fn small_writes_are_collected_and_overlapping_ones_wait() {
    let mut state = State { pending: None, ..State::default() };
    let by = Credential::nobody();
    assert!(!state.appends(0, &by, 1, 100));
    let chunk = Chunk { offset: 10, data: vec![0; 50], by: Arc::new(by.clone()), since: Instant::now() };
    state.pending = Some(chunk);
    assert!(state.appends(60, &by, 50, 100) && !state.appends(60, &by, 51, 100) && !state.appends(59, &by, 1, 100));
    assert!(!state.appends(60, &Credential::root(), 1, 100));
    assert!(!state.must_wait());
    let sent = Chunk { offset: 59, data: vec![0; 9], by: Arc::new(by), since: Instant::now() };
    state.in_flight.push(Arc::new(sent));
    assert!(state.must_wait());
}
