//! Lists of hosts as clush and pdsh have them: `node1,node3`, `node[1-8]`, `node[01-10/2,15]`, `rack[1-2]n[1-4]`,
//! `node[1-8]!node3`.

use weft_ipc::FABRIC_HOSTS_MAX;

/// Expands a list into names, in its order and each once.
///
/// # Errors
/// The list is malformed, empty or too long; the text is for the user.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut parts = list.split('!');
    let mut hosts = union(list, parts.next().unwrap_or_default())?;
    for excluded in parts {
        let excluded = union(list, excluded)?;
        hosts.retain(|host| !excluded.contains(host));
    }
    if hosts.is_empty() { Err(format!("the list `{list}` names no host")) } else { Ok(hosts) }
}

/// The names in a list without exclusions.
fn union(list: &str, part: &str) -> Result<Vec<String>, String> {
    let mut seen = std::collections::BTreeSet::new();
    let mut hosts = Vec::new();
    for pattern in split_outside(part).into_iter().map(str::trim).filter(|pattern| !pattern.is_empty()) {
        for host in pattern_names(pattern).map_err(|why| format!("the list `{list}`: {why}"))? {
            if seen.insert(host.clone()) {
                hosts.push(host);
            }
        }
        check_count(hosts.len()).map_err(|why| format!("the list `{list}`: {why}"))?;
    }
    Ok(hosts)
}

fn check_count(count: usize) -> Result<(), String> {
    if count > FABRIC_HOSTS_MAX { Err(format!("more than {FABRIC_HOSTS_MAX} hosts")) } else { Ok(()) }
}

/// Splits at the commas that are not in brackets.
fn split_outside(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    let at_comma = |c: char| {
        match c {
            '[' => is_inside = true,
            ']' => is_inside = false,
            _ => {}
        }
        c == ',' && !is_inside
    };
    text.split(at_comma).collect()
}

/// The names that a pattern stands for. Every bracket multiplies them; the last one changes fastest.
fn pattern_names(pattern: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, after) = after.split_once(']').ok_or_else(|| format!("`{pattern}` has no closing bracket"))?;
        let numbers = range_numbers(ranges)?;
        check_count(names.len().saturating_mul(numbers.len()))?;
        let with = |name: &String, number: &String| format!("{name}{before}{number}");
        names = names.iter().flat_map(|name| numbers.iter().map(move |number| with(name, number))).collect();
        rest = after;
    }
    if rest.contains(']') {
        return Err(format!("`{pattern}` has no opening bracket"));
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// The numbers of a bracket such as `1-8/2,12`. Leading zeros of a range's start set the width of its numbers.
fn range_numbers(ranges: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let malformed = || format!("`{range}` in brackets is not a number or range; a range is 1-8 or 1-8/2");
        let (bounds, step) = range.split_once('/').unwrap_or((range, "1"));
        let (from, to) = bounds.split_once('-').unwrap_or((bounds, bounds));
        let width = if from.starts_with('0') { from.len() } else { 0 };
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| malformed());
        let (from, to, step) = (number(from)?, number(to)?, number(step)?);
        if step == 0 || from > to {
            return Err(malformed());
        }
        check_count((to - from) / step + numbers.len())?;
        numbers.extend((from..=to).step_by(step).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded_as_clush_does() {
        for (list, names) in [
            ("node1", "node1"),
            ("node1,node3", "node1 node3"),
            ("node[1-4]", "node1 node2 node3 node4"),
            ("node[1-3,7],node9", "node1 node2 node3 node7 node9"),
            ("node[08-11]", "node08 node09 node10 node11"),
            ("node[0-8/4]", "node0 node4 node8"),
            ("r[1-2]n[1-2]x", "r1n1x r1n2x r2n1x r2n2x"),
            ("node3, node[1-3]", "node3 node1 node2"),
            ("node[1-4]!node[2-3]", "node1 node4"),
        ] {
            assert_eq!(expand(list).unwrap().join(" "), names, "{list}");
        }
    }

    #[test]
    fn malformed_lists_are_refused() {
        for (list, why) in [
            ("", "names no host"),
            ("node1!node1", "names no host"),
            ("node[1-", "no closing bracket"),
            ("node1]", "no opening bracket"),
            ("node[]", "is not a number or range"),
            ("node[4-1]", "is not a number or range"),
            ("node[1-4/0]", "is not a number or range"),
            ("node[a-b]", "is not a number or range"),
            ("node[0-99999999999]", "more than"),
            ("n[0-18446744073709551615]", "more than"),
            ("a[1-9999]b[1-9999]c[1-9999]", "more than"),
        ] {
            let error = expand(list).unwrap_err();
            assert!(error.contains(why), "{list}: {error}");
        }
    }
}
