//! `weft ui` in Debian's chromium: a cable is cut by a click while a program sends, and the traffic is seen to move; the
//! keyboard; the contrast of every text; a RoCE machine and the reason for a broken connection; and who gets no answer.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use weft_interop::proc::Proc;
use weft_interop::webdriver::{Browser, http};
use weft_interop::{Fabric, Lab, Pair, Shape, Table, Who, product, skip};

const TOOLS: &[&str] = &["ip", "ib_write_bw", "chromium", "chromedriver"];
/// Time limit for the server to print its address.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// Names of the cables with a load of 0.1% and more, as the table of links has them. Sweeps of the manager cause less.
const LOADED: &str = "[...document.querySelectorAll('#panel tbody tr')].filter((row) => parseFloat(row.children[2].textContent) > 0).map((row) => row.children[0].textContent)";

#[test]
fn on_a_fabric() {
    if !skip::have("weft ui on a fabric", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::managed(&lab, &["--fat-tree", "4,2"]).expect("a fabric");
    let ui = Ui::start(&lab, &[]).expect("a server");
    let mut table = Table::new("weft ui on a fabric");
    let browser = Browser::start(&lab, lab.client(), 1600, 1000).expect("a browser");
    table.case("every node and link is drawn, the token leaves the address", || drawn(&browser, &ui));
    table.case("a cable is cut by a click, and the traffic moves", || cut(&lab, &fabric, &browser));
    table.case("a cut from elsewhere is shown, and switched off", || switched(&fabric, &browser));
    table.case("a node is chosen and powered by keys", || keys(&fabric, &browser));
    table.case("the manager's sweeps and routes", || manager(&browser));
    table.case("texts can be read, light and dark, wide and narrow", || contrast(&browser));
    table.case("no answer without the token, to other hosts and origins", || refused(&lab, &ui));
    table.case("a read-only page changes nothing", || read_only(&lab));
    drop(browser);
    table.finish();
}

#[test]
fn on_a_machine() {
    if !skip::have("weft ui on a machine", TOOLS) {
        return;
    }
    let lab = Lab::new(Shape::One).expect("a lab");
    let mut table = Table::new("weft ui on a machine");
    let ui = Ui::start(&lab, &[]).expect("a server");
    let browser = Browser::start(&lab, lab.client(), 1600, 1000).expect("a browser");
    table.case("without a daemon the page says so", || alone(&lab, &browser, &ui));
    table.case("adapters, flows, queue pairs, and why the last connection broke", || roce(&lab, &browser));
    drop(browser);
    table.finish();
}

/// A running `weft ui`.
struct Ui {
    _server: Proc,
    url: String,
    port: u16,
}

impl Ui {
    fn start(lab: &Lab, words: &[&str]) -> Result<Ui> {
        let weft = product::weft()?.display().to_string();
        let line = lab.bare(lab.client(), Who::Root, &[&[weft.as_str(), "ui"], words].concat());
        let mut server = lab.start_line(&line, &[])?;
        let ready = server.wait_until(STARTS_WITHIN, |server| server.text().contains('\n'));
        ensure!(ready, "no address:\n{}", server.text());
        let url = server.text().trim().to_owned();
        let port = url.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split('/').next()?.parse().ok());
        Ok(Ui { port: port.with_context(|| url.clone())?, url, _server: server })
    }
}

fn drawn(browser: &Browser<'_>, ui: &Ui) -> Result<()> {
    browser.open(&ui.url)?;
    browser.wait("14 nodes", "document.querySelectorAll('#stage .node').length === 14")?;
    browser.wait("16 links that carry data", "document.querySelectorAll('#stage .link.active').length === 16")?;
    let address = browser.run("return location.href + document.cookie;")?;
    ensure!(address == format!("http://127.0.0.1:{}/", ui.port), "{address}");
    let unnamed = "return [...document.querySelectorAll('#stage .node, button, input, select')].filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length))).map((e) => e.outerHTML);";
    let unnamed = browser.run(unnamed)?;
    ensure!(unnamed == json!([]), "without a name: {unnamed}");
    Ok(())
}

/// Starts a program that sends from one side of the tree to the other.
fn traffic(lab: &Lab, fabric: &Fabric<'_>) -> Result<(Proc, Proc)> {
    let words = ["ib_write_bw", "-d", "weft0", "-F", "-D", "600", "-u", "20", "-s", "65536"];
    let mut server = lab.start_line(&fabric.words("node1", &words)?, &[])?;
    ensure!(server.wait_listening(18515, Duration::from_secs(30)), "the server does not listen:\n{}", server.text());
    let client = lab.start_line(&fabric.words("node8", &[&words[..], &["node1"]].concat())?, &[])?;
    Ok((server, client))
}

/// The name of another loaded link between a leaf, whose name begins so, and a spine.
fn trunk(leaf: &str, without: &str) -> String {
    format!("{LOADED}.find((name) => name.startsWith({leaf:?}) && name.includes('spine') && name !== {without:?})")
}

fn cut(lab: &Lab, fabric: &Fabric<'_>, browser: &Browser<'_>) -> Result<()> {
    let (server, client) = traffic(lab, fabric)?;
    let name = browser.wait("a trunk with traffic", &trunk("leaf", ""))?.as_str().context("a name")?.to_owned();
    let cable = format!(
        "[...document.querySelectorAll('#stage .hit')].find((hit) => {{ hit.dispatchEvent(new Event('pointerenter')); return hit.querySelector('title').textContent.startsWith({name:?} + ':'); }}).dataset.cable"
    );
    let cable = browser.wait("its line", &cable)?.as_str().context("a number")?.to_owned();
    browser.wait("its line shows a load", &format!("document.querySelector('#stage .hit[data-cable=\"{cable}\"]').previousSibling.getAttribute('class').includes('load')"))?;
    browser.click(&format!("#stage .hit[data-cable='{cable}']"))?;
    browser.wait("the selection", &format!("document.querySelector('#detail h2').textContent === {name:?}"))?;
    browser.click("#detail button[data-do=cut]")?;
    let line =
        format!("document.querySelector('#stage .hit[data-cable=\"{cable}\"]').previousSibling.getAttribute('class')");
    browser.wait("the line is cut", &format!("{line} === 'link cut'"))?;
    let plain = name.replace('\u{2013}', "-");
    let status = fabric.status()?;
    let is_cut = |link: &serde_json::Value| {
        link["state"] == "cut"
            && plain
                == format!("{} - {}", link["a"].as_str().unwrap_or_default(), link["b"].as_str().unwrap_or_default())
    };
    ensure!(status["cables"].as_array().is_some_and(|cables| cables.iter().any(is_cut)), "{plain} in {status:#}");
    let leaf = &name[..=name.find(':').context("a port")?];
    browser.wait("the traffic on the leaf's other trunk", &trunk(leaf, &name))?;
    browser.click("#tab-log")?;
    browser.wait(
        "the log",
        &format!(
            "document.querySelector('#panel').textContent.includes({:?})",
            format!("{plain} cut: the cable is unplugged")
        ),
    )?;
    browser.click("#tab-links")?;
    browser.click("#detail button[data-do=join]")?;
    browser.wait("the line carries data again", &format!("{line}.startsWith('link active')"))?;
    drop((client.kill(), server.kill()));
    Ok(())
}

fn switched(fabric: &Fabric<'_>, browser: &Browser<'_>) -> Result<()> {
    fabric.weft(&["cable", "cut", "node3:1"])?;
    browser.wait("the cut", "document.querySelectorAll('#stage .link.cut').length === 1")?;
    browser.click("#tab-faults")?;
    browser.wait("the fault", "document.querySelector('#panel tbody input:checked')")?;
    browser.click("#panel tbody input")?;
    browser.wait("no cut", "document.querySelectorAll('#stage .link.cut').length === 0")?;
    browser.wait("the switch is off", "document.querySelector('#panel tbody input:not(:checked)')")?;
    browser.click("#panel tbody input")?;
    browser.wait("the cut again", "document.querySelectorAll('#stage .link.cut').length === 1")?;
    fabric.weft(&["cable", "join", "node3:1"])?;
    browser.wait("well again", "document.querySelectorAll('#stage .link.active').length === 16")?;
    fabric.weft(&["cable", "errors", "node4:1", "--ppm", "5000"])?;
    browser.wait("a link that damages packets", "document.querySelectorAll('#stage .link.errors').length === 1")?;
    fabric.weft(&["cable", "degrade", "node4:1"])?;
    browser.wait("none", "document.querySelectorAll('#stage .link.errors').length === 0").map(drop)
}

/// WebDriver's code points of keys.
const TAB: &str = "\u{E004}";
const ENTER: &str = "\u{E007}";
const DOWN: &str = "\u{E015}";
const RIGHT: &str = "\u{E014}";

fn keys(fabric: &Fabric<'_>, browser: &Browser<'_>) -> Result<()> {
    browser.run("document.querySelector('#stage .node[tabindex=\"0\"]').focus();")?;
    browser.press(&[RIGHT])?;
    browser.press(&[DOWN])?;
    browser.press(&[ENTER])?;
    let name =
        browser.wait("a selection", "document.activeElement.dataset.node")?.as_str().context("a name")?.to_owned();
    browser.wait("its details", &format!("document.querySelector('#detail h2').textContent === {name:?}"))?;
    // From the drawing, Tab reaches the first button of the selection.
    let until = "document.activeElement.closest('#detail') !== null";
    for _ in 0..20 {
        browser.press(&[TAB])?;
        if browser.run(&format!("return {until};"))? == true {
            break;
        }
    }
    browser.wait("the focus in the selection", until)?;
    browser.wait("Power off", "document.activeElement.dataset.do === 'power off'")?;
    browser.press(&[ENTER])?;
    browser.wait("the node is off", "document.querySelectorAll('#stage .node.off').length === 1")?;
    fabric.weft(&["node", "on", &name])?;
    browser.wait("all links again", "document.querySelectorAll('#stage .link.active').length === 16")?;
    browser.click("#tab-links")?;
    browser.press(&[RIGHT])?;
    browser
        .wait("the next tab", "document.querySelector('#tab-hosts').getAttribute('aria-selected') === 'true'")
        .map(drop)
}

fn manager(browser: &Browser<'_>) -> Result<()> {
    browser.click("#tab-manager")?;
    browser
        .wait("the manager", "document.querySelector('#panel .card dd').textContent.startsWith('master, subnet up')")?;
    let measured = "document.querySelectorAll('#panel thead th').length";
    let before = browser.wait("a measurement", &format!("{measured} > 1 && {measured}"))?;
    browser.click("#panel button:nth-of-type(2)")?;
    browser.wait("another measurement", &format!("{measured} > Math.min({before}, 5)"))?;
    browser.wait("no credit loop", "document.querySelector('#panel').textContent.includes('Credit loopnone')").map(drop)
}

/// Finds texts whose contrast with the nearest colored ground is below 4.5 (WCAG 2.2, 1.4.3).
const PALE: &str = r"
const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
const rgb = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
const pale = [];
for (const e of document.querySelectorAll('body *')) {
  if (e.closest('svg') || !e.checkVisibility() || e.disabled || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
  const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) pale.push(e.outerHTML.slice(0, 120) + ' ' + ratio.toFixed(2));
}
return pale;";

fn contrast(browser: &Browser<'_>) -> Result<()> {
    for (scheme, width) in [("light", 1600), ("dark", 1600), ("dark", 400), ("light", 400)] {
        browser.emulate(scheme, width)?;
        for tab in ["links", "hosts", "faults", "manager", "log", "counters", "adapters", "queue-pairs"] {
            browser.click(&format!("#tab-{tab}"))?;
            let pale = browser.run(PALE)?;
            ensure!(pale == json!([]), "{scheme}, {width} wide, {tab}: {pale:#}");
            let wide = browser.run("return document.documentElement.scrollWidth;")?;
            ensure!(wide.as_u64() <= Some(width), "{scheme}, {width} wide, {tab}: the page is {wide} wide");
        }
    }
    browser.emulate("light", 1600)
}

fn refused(lab: &Lab, ui: &Ui) -> Result<()> {
    let ask = |method: &str, path: &str, headers: &str| http(lab.client(), ui.port, method, path, headers, "");
    let token = ui.url.split_once("/?").context("a token")?.1;
    for path in ["/", "/app.js", "/api/events", "/?token=0"] {
        let answer = ask("GET", path, "")?;
        ensure!(answer.starts_with("HTTP/1.1 401 ") && !answer.contains("<html"), "{path}: {answer}");
    }
    let rebound = ask("GET", &format!("/?{token}"), "Host: evil.example\r\n")?;
    ensure!(rebound.starts_with("HTTP/1.1 403 ") && !rebound.to_lowercase().contains("set-cookie"), "{rebound}");
    let entered = ask("GET", &format!("/?{token}"), "")?;
    let cookie =
        entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next()).context("a cookie")?;
    let with = |origin: &str| format!("Cookie: {cookie}\r\nContent-Type: application/json\r\n{origin}");
    ensure!(ask("GET", "/", &with(""))?.starts_with("HTTP/1.1 200 "));
    for origin in ["Origin: http://evil.example\r\n", "Origin: null\r\n", ""] {
        let answer = ask("POST", "/api/action", &with(origin))?;
        ensure!(answer.starts_with("HTTP/1.1 403 "), "{origin}: {answer}");
    }
    let listening = lab.bare(lab.client(), Who::Root, &["ss", "-Hltn", &format!("sport = :{}", ui.port)]);
    let listening = lab.start_line(&listening, &[])?.wait(STARTS_WITHIN).text;
    ensure!(listening.contains(&format!("127.0.0.1:{}", ui.port)), "not the loopback address alone: {listening}");
    Ok(())
}

fn read_only(lab: &Lab) -> Result<()> {
    let ui = Ui::start(lab, &["--read-only"])?;
    let token = ui.url.split_once("/?").context("a token")?.1;
    let entered = http(lab.client(), ui.port, "GET", &format!("/?{token}"), "", "")?;
    let cookie =
        entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next()).context("a cookie")?;
    let headers =
        format!("Cookie: {cookie}\r\nContent-Type: application/json\r\nOrigin: http://127.0.0.1:{}\r\n", ui.port);
    let body = r#"{"kind":"node","name":"node2","change":{"to":"off"}}"#;
    let answer = http(lab.client(), ui.port, "POST", "/api/action", &headers, body)?;
    ensure!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("--read-only"), "{answer}");
    Ok(())
}

fn alone(lab: &Lab, browser: &Browser<'_>, ui: &Ui) -> Result<()> {
    browser.open(&ui.url)?;
    browser.wait("the hint", "document.querySelector('#stage').textContent.includes('weft run -- PROGRAM')")?;
    ensure!(lab.daemon(lab.client()).is_none(), "the page started a daemon");
    Ok(())
}

fn roce(lab: &Lab, browser: &Browser<'_>) -> Result<()> {
    let pair = Pair::new("ib_write_bw", "-D 600 -s 65536 -F").devices(lab)?.env("WEFT_LOOPBACK", "wire");
    let server = pair.start_server(lab)?;
    let mut client = pair.start_client(lab)?;
    let device = &lab.device(lab.client())?.name;
    browser.wait("a flow in the drawing", "document.querySelector('#stage .flow:not(.still)')")?;
    browser.wait(
        "the adapter",
        &format!("[...document.querySelectorAll('#panel td')].some((cell) => cell.textContent === {device:?})"),
    )?;
    browser.click("#tab-queue-pairs")?;
    browser.wait(
        "the queue pairs",
        "[...document.querySelectorAll('#panel .state')].some((cell) => cell.textContent === 'RTS')",
    )?;
    server.kill();
    browser.click("#tab-adapters")?;
    browser
        .wait("the reason", "document.querySelector('#panel .card.bad b')?.textContent.includes('did not answer')")?;
    let text = browser.run("return document.querySelector('#panel .card.bad p').textContent;")?;
    ensure!(text.as_str().is_some_and(|text| text.contains("ib_write_bw")), "{text}");
    client.wait_until(STARTS_WITHIN, |_| false);
    client.kill();
    Ok(())
}
