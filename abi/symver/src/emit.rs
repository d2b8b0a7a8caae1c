//! Writes the two generated files: the trampolines and the version script.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::list::{Answer, Symbol};

/// The stubs, one of each kind. They fit any signature: they read no arguments, and the C calling conventions of the
/// supported machines return integers and pointers in one register.
const STUBS: &str = "
mod stub {
    use std::ffi::{c_int, c_void};

    fn set_errno() {
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
    }
    #[allow(dead_code)]
    pub extern \"C\" fn ptr() -> *mut c_void {
        set_errno();
        std::ptr::null_mut()
    }
    #[allow(dead_code)]
    pub extern \"C\" fn neg() -> isize {
        set_errno();
        -1
    }
    #[allow(dead_code)]
    pub extern \"C\" fn err() -> c_int {
        set_errno();
        libc::EOPNOTSUPP
    }
    #[allow(dead_code)]
    pub extern \"C\" fn void() {}
}
";

/// Generates `exports.rs`: stubs, and a trampoline for each symbol.
pub fn exports(symbols: &[Symbol], functions: &BTreeMap<String, String>, arch: &str) -> String {
    let jump = match arch {
        "x86_64" => "jmp",
        "aarch64" => "b",
        "riscv64" => "tail",
        other => panic!("no trampoline for {other}: add its tail jump to abi/symver/src/emit.rs"),
    };
    let mut rs = String::from(STUBS);
    for s in symbols {
        let Symbol { name, node, default, answer } = s;
        let at = if *default { "@@" } else { "@" };
        let label = format!("\\\"weft.{name}.{node}\\\"");
        let (section, kind, body, operand) = match answer {
            Answer::Data => (".data.rel", "object", format!("{label}: .byte 0"), String::new()),
            _ => {
                let target = match answer {
                    Answer::Real => functions.get(name).cloned().unwrap_or_default(),
                    Answer::Ptr => "stub::ptr".to_owned(),
                    Answer::Neg => "stub::neg".to_owned(),
                    Answer::Err => "stub::err".to_owned(),
                    Answer::Void | Answer::Data => "stub::void".to_owned(),
                };
                (".text", "function", format!("{label}: {jump} {{f}}"), format!(", f = sym {target}"))
            }
        };
        let flags = if *answer == Answer::Data { "aw" } else { "ax" };
        writeln!(
            rs,
            "core::arch::global_asm!(\".pushsection {section}.weft.{name}.{node},\\\"{flags}\\\",@progbits\", \
             \".globl {label}\", \".type {label},@{kind}\", \"{body}\", \".size {label}, . - {label}\", \
             \".symver {label}, {name}{at}{node}, remove\", \".popsection\"{operand});"
        )
        .expect("writing to a String");
    }
    rs
}

/// Generates the version script: public nodes chained from oldest to newest (unversioned references bind to the
/// oldest), private ones separate. lld needs only the nodes; GNU ld also needs the lists and `local: *`.
pub fn version_script(symbols: &[Symbol]) -> String {
    let mut nodes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for s in symbols {
        nodes.entry(&s.node).or_default().insert(&s.name);
    }
    let mut order: Vec<&str> = nodes.keys().copied().collect();
    order.sort_by_key(|n| node_rank(n));
    let mut map = String::new();
    let mut previous = "";
    for (i, node) in order.iter().enumerate() {
        let names: Vec<&str> = nodes[node].iter().copied().collect();
        let local = if i == 0 { " local: *;" } else { "" };
        let private = is_private(node);
        let parent = if private || previous.is_empty() { String::new() } else { format!(" {previous}") };
        writeln!(map, "{node} {{ global: {};{local} }}{parent};", names.join("; ")).expect("writing to a String");
        if !private {
            previous = node;
        }
    }
    map
}

fn is_private(node: &str) -> bool {
    node.contains("PRIVATE")
}

/// Returns the sort key of a node: `X_1.2` before `X_1.10` before `X_PRIVATE_34`.
fn node_rank(node: &str) -> (bool, Vec<u32>) {
    let number = node.rsplit('_').next().unwrap_or_default();
    (is_private(node), number.split('.').filter_map(|part| part.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::parse;

    #[test]
    fn nodes_are_chained_in_numerical_order() {
        let symbols = parse(
            "c X_1.10 default err\np X_PRIVATE_34 default err\nb X_1.2 default err\na X_1.0 hidden ptr\na X_1.2 default ptr\n",
        )
        .unwrap();
        assert_eq!(
            version_script(&symbols),
            "X_1.0 { global: a; local: *; };\nX_1.2 { global: a; b; } X_1.0;\nX_1.10 { global: c; } X_1.2;\n\
             X_PRIVATE_34 { global: p; };\n"
        );
    }

    #[test]
    fn trampolines_jump_to_the_implementation_or_a_stub() {
        let symbols = parse("f V_1.1 default real\nf V_1.0 hidden ptr\nd V_1.1 default data\n").unwrap();
        let functions = [("f".to_owned(), "crate::m::f".to_owned())].into();
        let rs = exports(&symbols, &functions, "x86_64");
        assert!(rs.contains("f@@V_1.1, remove") && rs.contains("f = sym crate::m::f"));
        assert!(rs.contains("f@V_1.0, remove") && rs.contains("f = sym stub::ptr"));
        assert!(rs.contains("@object"));
    }
}
