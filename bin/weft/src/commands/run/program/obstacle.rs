//! Reasons why Weft cannot serve a program at all, whatever libraries its loader finds.

use object::elf::{EM_386, EM_AARCH64, EM_ARM, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64};

use super::elf::Elf;
use super::linked::Linked;
use crate::rdma_dir::soname_of;

/// Reason why Weft cannot serve a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obstacle {
    /// The reason, about "it".
    pub reason: String,
    /// The remedy, or the exception.
    pub remedy: &'static str,
    /// Whether the program certainly fails. A shell or a build tool needs no RDMA itself.
    pub is_certain: bool,
}

/// The exception: programs that an unserved program starts.
const CHILDREN: &str = "programs that it starts are served";

/// The machine of Weft's own libraries.
const OWN_MACHINE: u16 = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };

/// Judges a program; `linked` reads its file if that is necessary.
pub fn of(elf: &Elf, linked: impl FnOnce() -> Linked) -> Option<Obstacle> {
    if elf.machine != OWN_MACHINE || !elf.is_64 {
        return Some(Obstacle {
            reason: format!(
                "it is a program for {}, and Weft's libraries are for {}",
                machine_name(elf.machine),
                machine_name(OWN_MACHINE)
            ),
            remedy: "build it for that architecture",
            is_certain: true,
        });
    }
    let Some(interpreter) = &elf.interpreter else { return without_loader(elf, linked()) };
    if interpreter.contains("ld-musl") {
        return Some(Obstacle {
            reason: format!("it is built for musl ({interpreter}), and Weft's libraries need glibc"),
            remedy: "build it for glibc",
            is_certain: true,
        });
    }
    let needs_verbs = elf.needed.iter().any(|name| soname_of(name).is_some());
    (elf.is_go && !needs_verbs).then(|| Obstacle {
        reason: "it is a Go program without libibverbs.so.1: it can find RDMA devices only through the kernel, which \
                 has none of Weft's"
            .to_owned(),
        remedy: CHILDREN,
        is_certain: false,
    })
}

fn without_loader(elf: &Elf, linked: Linked) -> Option<Obstacle> {
    let kind = if elf.is_go { "a Go program and statically linked" } else { "statically linked" };
    match linked {
        Linked::Dynamically => None,
        Linked::StaticallyWithVerbs => Some(Obstacle {
            reason: format!("it is {kind} and brings its own verbs, which see no device of Weft"),
            remedy: "link it dynamically against libibverbs.so.1",
            is_certain: true,
        }),
        Linked::Statically => Some(Obstacle {
            reason: format!("it is {kind}, so no loader gives it Weft's libraries"),
            remedy: CHILDREN,
            is_certain: false,
        }),
    }
}

fn machine_name(machine: u16) -> String {
    let name = match machine {
        EM_X86_64 => "x86-64",
        EM_AARCH64 => "AArch64",
        EM_386 => "32-bit x86",
        EM_ARM => "32-bit ARM",
        EM_RISCV => "RISC-V",
        EM_PPC64 => "64-bit PowerPC",
        EM_S390 => "S/390",
        other => return format!("machine {other} (e_machine)"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dynamic() -> Elf {
        Elf {
            machine: OWN_MACHINE,
            is_64: true,
            interpreter: Some("/lib64/ld-linux-x86-64.so.2".to_owned()),
            ..Elf::default()
        }
    }

    fn reason(elf: &Elf, linked: Linked) -> String {
        of(elf, || linked).map(|obstacle| obstacle.reason).unwrap_or_default()
    }

    #[test]
    fn ordinary_programs_have_none() {
        assert_eq!(of(&dynamic(), || unreachable!("the loader decides")), None);
        let go = Elf { is_go: true, needed: vec!["libibverbs.so.1".to_owned()], ..dynamic() };
        assert_eq!(of(&go, || unreachable!("the loader decides")), None);
    }

    #[test]
    fn a_program_for_elsewhere_is_named() {
        assert!(reason(&Elf { machine: EM_RISCV, ..dynamic() }, Linked::Dynamically).contains("for RISC-V, and"));
        assert!(
            reason(&Elf { machine: EM_386, is_64: false, ..dynamic() }, Linked::Dynamically).contains("32-bit x86")
        );
        let musl = Elf { interpreter: Some("/lib/ld-musl-x86_64.so.1".to_owned()), ..dynamic() };
        assert!(reason(&musl, Linked::Dynamically).contains("built for musl"));
    }

    #[test]
    fn static_programs_certainly_fail_only_with_verbs() {
        let alone = Elf { interpreter: None, ..dynamic() };
        let with_verbs = of(&alone, || Linked::StaticallyWithVerbs).unwrap();
        assert!(with_verbs.is_certain && with_verbs.reason.contains("brings its own verbs"));
        let shell = of(&alone, || Linked::Statically).unwrap();
        assert!(!shell.is_certain && shell.remedy == CHILDREN);
        assert!(reason(&Elf { is_go: true, ..alone }, Linked::Statically).contains("a Go program and statically"));
    }

    #[test]
    fn a_go_program_needs_libibverbs() {
        assert!(reason(&Elf { is_go: true, ..dynamic() }, Linked::Dynamically).contains("without libibverbs.so.1"));
    }
}
