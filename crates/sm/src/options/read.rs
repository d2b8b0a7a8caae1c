//! Parser of opensm.conf: a name and a value per line. A line that cannot be parsed yields a diagnostic with line number
//! and fix, and leaves the default; an option without effect yields one diagnostic.

use super::check::{Lines, check};
use super::spec::{Effect, Spec};
use super::text::clip;
use super::{ALIASES, Diagnostic, Diagnostics, Options, SECTIONS, bounded, option};

/// Fixes for names that no version ever had, but that administrators' guides mention.
const MEANT: &[(&str, &str)] = &[("logdir", "write log_file and dump_files_dir")];

/// Parses a file over `options`, which are the defaults on the first read; `file` names it in diagnostics.
pub fn parse(text: &str, file: &str, mut options: Options) -> (Options, Vec<Diagnostic>) {
    let mut diagnostics = Diagnostics::of(file);
    let mut seen = Lines::new();
    if bounded(text).len() < text.len() {
        let what = format!("only the first {} bytes are read", super::FILE_LEN_MAX);
        diagnostics.error((0, 0), what, "is this the right file?");
    }
    let before = options.clone();
    for (line, (name, value)) in settings(text) {
        let Some(spec) = option(name) else {
            let fix = if diagnostics.is_full() { String::new() } else { near(name) };
            diagnostics.error((line, 1), format!("no option is called {}; the line is passed over", clip(name)), fix);
            continue;
        };
        if let Some((_, new)) = ALIASES.iter().find(|(old, _)| *old == name) {
            diagnostics.note((line, 1), format!("{name} is now called {new}"), format!("write {new}"));
        }
        if let Err(wrong) = (spec.set)(&mut options, value) {
            let stays = (spec.show)(&options).join(", ");
            diagnostics.error((line, 1), format!("{name}: {wrong}"), format!("fix the value; it is {stays} now"));
        }
        if let Some(first) = seen.insert(spec.name, line)
            && (spec.show)(&options).len() == 1
            && !spec.name.starts_with("cc_ca_cong_setting_")
        {
            let what = format!("{name} was set before, in line {first}; the last one counts");
            diagnostics.warning((line, 1), what, "leave one of them out");
        }
    }
    for (name, line) in &seen {
        say_if_idle(name, *line, &before, &options, &mut diagnostics);
    }
    check(&mut options, &seen, &mut diagnostics);
    (options, diagnostics.into_list())
}

/// Sets options by name, as the command line does, over those of a file; `place` names it in diagnostics. Diagnostics that the
/// file alone already caused are left out.
///
/// # Errors
/// No such option exists, or the value does not fit it.
pub fn set(options: &mut Options, words: &[(String, String)], place: &str) -> Result<Vec<Diagnostic>, String> {
    let before = options.clone();
    let mut diagnostics = Diagnostics::of(place);
    for (name, value) in words {
        let spec = option(name).ok_or_else(|| format!("no option is called {}; {}", clip(name), near(name)))?;
        (spec.set)(options, value).map_err(|wrong| format!("{name}: {wrong}"))?;
        say_if_idle(name, 0, &before, options, &mut diagnostics);
    }
    let (mut known, lines) = (Diagnostics::of(place), Lines::new());
    check(&mut before.clone(), &lines, &mut known);
    check(options, &lines, &mut diagnostics);
    let known = known.into_list();
    let mut diagnostics = diagnostics.into_list();
    diagnostics.retain(|diagnostic| !known.contains(diagnostic));
    Ok(diagnostics)
}

/// Yields names and values, without comments, blanks and quotation marks.
fn settings(text: &str) -> impl Iterator<Item = (u32, (&str, &str))> {
    super::lines(text).map(|(number, line)| {
        let (name, value) = line.split_once(|c: char| c.is_whitespace()).unwrap_or((line, ""));
        (number, (name, unquoted(value.trim())))
    })
}

fn unquoted(value: &str) -> &str {
    ['"', '\''].iter().find_map(|mark| value.strip_prefix(*mark)?.strip_suffix(*mark)).unwrap_or(value)
}

/// Warns about an option without effect, if its value differs from the default.
fn say_if_idle(name: &str, line: u32, before: &Options, options: &Options, diagnostics: &mut Diagnostics) {
    let Some(&Spec { effect: Effect::Nothing(why), show, .. }) = option(name) else { return };
    if show(before) != show(options) {
        diagnostics.warning(
            (line, u32::from(line > 0)),
            format!("{name} has no effect: {why}"),
            "leave it out, or live without it",
        );
    }
}

/// Suggests the option whose name is nearest to a wrong one.
fn near(wrong: &str) -> String {
    if let Some((_, fix)) = MEANT.iter().find(|(name, _)| *name == wrong) {
        return (*fix).to_owned();
    }
    let names = SECTIONS.iter().flat_map(|section| section.specs).map(|spec| spec.name);
    let best = names.map(|name| (distance(wrong, name), name)).min();
    match best {
        Some((far, name)) if far <= 3 => format!("is {name} meant?"),
        _ => "see --create-config for all options".to_owned(),
    }
}

/// Returns the Levenshtein distance of two words; words of more than 64 letters are not compared.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (to, cell) in b.bytes().zip(row.iter_mut().skip(1)) {
            let next = (diagonal + usize::from(from != to)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = next;
            left = next;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
