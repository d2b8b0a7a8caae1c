//! The `WEFT_TRACE` specification: traces, each with the destination of its lines and a filter.

/// Traces of one process.
const TRACES_MAX: usize = 4;
/// Precedes the path of a Unix socket.
const SOCKET_PREFIX: &str = "unix:";

/// The subject of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A queue pair changed its state; an asynchronous event.
    State,
    /// Work was posted.
    Post,
    /// A completion was fetched.
    Cqe,
    /// A packet came or left.
    Packet,
    /// Packets were lost, sent again, refused because no receive was posted, or came twice.
    Loss,
    /// A queue pair chose its path to the peer.
    Path,
    /// Bytes were copied within the host.
    Copy,
    /// Memory was shared, or could not be.
    Share,
    /// A thread woke, or was woken.
    Wake,
    /// A failure was injected.
    Fault,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::State,
        Kind::Post,
        Kind::Cqe,
        Kind::Packet,
        Kind::Loss,
        Kind::Path,
        Kind::Copy,
        Kind::Share,
        Kind::Wake,
        Kind::Fault,
    ];

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::State => "state",
            Kind::Post => "post",
            Kind::Cqe => "cqe",
            Kind::Packet => "packet",
            Kind::Loss => "loss",
            Kind::Path => "path",
            Kind::Copy => "copy",
            Kind::Share => "share",
            Kind::Wake => "wake",
            Kind::Fault => "fault",
        }
    }
}

/// Destination of the lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// Standard error.
    Stderr,
    /// A file; lines are appended.
    File(String),
    /// A Unix stream socket that a reader of events listens on, by its path.
    Socket(String),
}

/// The parsed specification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Destination.
    pub place: Place,
    /// Kinds of lines; empty for all.
    kinds: Vec<Kind>,
    /// The only queue pair to trace; applies to lines about queue pairs.
    qpn: Option<u32>,
}

impl Spec {
    /// Parses traces with semicolons between them; parts without text count as none. The error is a sentence for the user.
    pub fn parse_all(text: &str) -> Result<Vec<Spec>, String> {
        let specs = text.split(';').filter(|part| !part.trim().is_empty()).map(Spec::parse);
        let specs = specs.collect::<Result<Vec<Spec>, String>>()?;
        if specs.len() > TRACES_MAX {
            return Err(format!("WEFT_TRACE: {} traces; {TRACES_MAX} are the most", specs.len()));
        }
        Ok(specs)
    }

    /// Parses `PLACE[,KIND|qp=NUMBER]...`.
    fn parse(text: &str) -> Result<Spec, String> {
        let mut words = text.split(',').map(str::trim);
        let place = match words.next().unwrap_or_default() {
            "" => return Err("WEFT_TRACE: stderr or a file must come first".to_owned()),
            "stderr" => Place::Stderr,
            name => match name.strip_prefix(SOCKET_PREFIX) {
                Some(path) => Place::Socket(path.to_owned()),
                None => Place::File(name.to_owned()),
            },
        };
        let mut spec = Spec { place, kinds: Vec::new(), qpn: None };
        for word in words {
            if let Some(number) = word.strip_prefix("qp=") {
                let parsed = match number.strip_prefix("0x") {
                    Some(digits) => u32::from_str_radix(digits, 16),
                    None => number.parse(),
                };
                spec.qpn = Some(parsed.map_err(|_| format!("WEFT_TRACE: {word}: a queue pair's number is wanted"))?);
            } else if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == word) {
                spec.kinds.push(kind);
            } else {
                let known: Vec<&str> = Kind::ALL.into_iter().map(Kind::name).collect();
                return Err(format!("WEFT_TRACE: {word} is none of {}, qp=NUMBER", known.join(", ")));
            }
        }
        Ok(spec)
    }

    /// Whether the filter passes a line.
    pub fn wants(&self, kind: Kind, qpn: Option<u32>) -> bool {
        let its_qp = self.qpn.is_none() || qpn.is_none() || qpn == self.qpn;
        its_qp && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_and_a_filter() {
        let [all] = &Spec::parse_all("/tmp/x").unwrap()[..] else { panic!("one trace") };
        assert_eq!(all.place, Place::File("/tmp/x".to_owned()));
        assert!(Kind::ALL.into_iter().all(|kind| all.wants(kind, Some(7))));
        let some = Spec::parse("stderr, loss, qp=0x10").unwrap();
        assert_eq!(some.place, Place::Stderr);
        assert!(some.wants(Kind::Loss, Some(16)) && some.wants(Kind::Loss, None));
        assert!(!some.wants(Kind::Loss, Some(17)) && !some.wants(Kind::State, Some(16)));
    }

    #[test]
    fn several_traces_have_a_place_and_a_filter_each() {
        let [file, socket] = &Spec::parse_all("/tmp/x,loss; unix:/run/s,cqe").unwrap()[..] else { panic!("two") };
        assert_eq!(file.place, Place::File("/tmp/x".to_owned()));
        assert_eq!(socket.place, Place::Socket("/run/s".to_owned()));
        assert!(!file.wants(Kind::Cqe, None) && socket.wants(Kind::Cqe, None) && !socket.wants(Kind::Loss, None));
        assert_eq!(Spec::parse_all("a; ;b;c;d;").unwrap().len(), 4);
        assert!(Spec::parse_all(" ;").unwrap().is_empty());
        assert!(Spec::parse_all("a;b;c;d;e").unwrap_err().contains("5 traces; 4 are the most"));
    }

    /// `weft fault run` accepts the kinds that this page lists.
    #[test]
    fn the_reference_lists_every_kind() {
        let kinds: Vec<String> = Kind::ALL.iter().map(|kind| format!("`{}`", kind.name())).collect();
        assert!(include_str!("../../../../docs/reference.md").contains(&format!("Kinds: {} |", kinds.join(", "))));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for wrong in [",loss", "stderr,lost", "stderr,qp=x", "stderr; ,loss"] {
            assert!(Spec::parse_all(wrong).unwrap_err().starts_with("WEFT_TRACE: "), "{wrong}");
        }
    }
}
