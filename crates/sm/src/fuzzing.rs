//! Fuzz target: the administrator's files. See [`weft_wire::fuzzing`].

use crate::manager::keys::Keys;
use crate::options::{self, Options, changes, create_config, sysconfig};
use crate::routing::torus::config::Config;
use crate::subnet::lids::Lids;
use crate::{partition, qos};

/// Asserts that no text panics as any of the manager's files, and that a parsed opensm.conf survives a rewrite
/// unchanged.
pub fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (read, _) = options::parse(&text, "opensm.conf", Options::default());
    let (again, diagnostics) = options::parse(&create_config(&read), "again.conf", Options::default());
    assert!(changes(&read, &again).is_empty(), "{:?} {diagnostics:?}", changes(&read, &again));
    let _ = partition::parse(&text, "partitions.conf");
    let _ = qos::policy::parse(&text, "qos-policy.conf");
    let _ = sysconfig(&text, "sysconfig");
    let _ = Config::read(&text);
    let lids = Lids::parse(&text);
    assert_eq!(Lids::parse(&lids.text()), lids);
    let keys = Keys::parse(&text).text();
    assert_eq!(Keys::parse(&keys).text(), keys);
}

#[cfg(test)]
mod tests {
    use super::configuration;
    use crate::options::{Options, create_config};
    use weft_wire::fuzzing::{Script, random_scripts};

    const PARTITIONS: &str =
        "Default=0x7fff,ipoib,mtu=4:ALL=full,SELF=limited;\np=1,sl=3,defmember=full : 0x2, 0x3=both;\n";
    const QOS: &str = "qos-ulps\n default : 0\n sdp, port-num 10000-20000: 2\nend-qos-ulps\nport-groups\n port-group\n name: a\n\
        port-guid: 0x1-0x2\n end-port-group\nend-port-groups\nGUIDS=\"0x1 0x2\"\n0x1 0x2 0x3\ntorus 3 3 3\n";

    #[test]
    fn damaged_files_are_survived() {
        random_scripts(configuration, 7, 300, 300);
        let config = create_config(&Options::default());
        let lines: Vec<&str> = config.lines().filter(|line| !line.starts_with('#')).chain(PARTITIONS.lines()).collect();
        let lines: Vec<&str> = lines.into_iter().chain(QOS.lines()).collect();
        random_lines(&lines, |text| configuration(text.as_bytes()));
    }

    /// Feeds lines in random order, each sometimes with a changed byte.
    fn random_lines(lines: &[&str], each: impl Fn(&str)) {
        let mut state = 1u64;
        for _ in 0..300 {
            let bytes: Vec<u8> = (0..400)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8
                })
                .collect();
            let mut script = Script::new(&bytes);
            let mut text = Vec::new();
            for _ in 0..1 + script.below(20) {
                let mut line = lines[script.below(lines.len())].as_bytes().to_vec();
                if script.byte() & 1 == 0 && !line.is_empty() {
                    let at = script.below(line.len());
                    line[at] = script.byte();
                }
                text.extend(line);
                text.push(b'\n');
            }
            each(&String::from_utf8_lossy(&text));
        }
    }
}
