//! Debian's chromium, headless, in a lab's namespace, driven by its chromedriver over WebDriver (W3C): JSON over HTTP, one
//! connection a request.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

use crate::lab::{Lab, Side};
use crate::proc::Proc;
use crate::user::Who;

/// Port of chromedriver in the lab's namespace.
const PORT: u16 = 9515;
/// Time limit for chromedriver's start, and for one command.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Time limit for a page to become as wanted.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);
/// Member of the JSON that names an element (W3C WebDriver 12.1).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Connects to a TCP port of a lab's namespace, which this process need not be in.
///
/// # Errors
/// Nothing listens there.
pub fn connect(side: &Side, port: u16) -> Result<TcpStream> {
    let path = format!("/run/netns/{}", side.netns);
    // The socket stays in the namespace of the thread that made it.
    let connected = std::thread::scope(|scope| {
        let inside = scope.spawn(|| -> Result<TcpStream> {
            let namespace = File::open(&path).with_context(|| path.clone())?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(TcpStream::connect(("127.0.0.1", port))?)
        });
        inside.join()
    });
    let stream = connected.map_err(|_| anyhow::anyhow!("the thread died"))??;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    Ok(stream)
}

/// Sends a request and returns the whole answer, head and body.
///
/// # Errors
/// Nothing listens, or no answer comes.
pub fn http(side: &Side, port: u16, method: &str, path: &str, headers: &str, body: &str) -> Result<String> {
    let mut stream = connect(side, port)?;
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: 127.0.0.1:{port}\r\n") };
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    stream.write_all((head + body).as_bytes())?;
    let (mut answer, mut part) = (Vec::new(), [0; 16 << 10]);
    // chromedriver leaves connections open, whatever the request says.
    while !is_whole(&answer) {
        match stream.read(&mut part)? {
            0 => break,
            length => answer.extend_from_slice(&part[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns whether an answer has come as far as its Content-Length says.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&answer[..head]).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= head + 4 + length)
}

/// A browser with one page.
#[derive(Debug)]
pub struct Browser<'a> {
    side: &'a Side,
    driver: Option<Proc>,
    session: String,
}

impl<'a> Browser<'a> {
    /// Starts chromedriver and a browser of this size.
    ///
    /// # Errors
    /// They do not start.
    pub fn start(lab: &'a Lab, side: &'a Side, width: u32, height: u32) -> Result<Browser<'a>> {
        let port = format!("--port={PORT}");
        let words = ["chromedriver", port.as_str()];
        let home = lab.file("chromium").display().to_string();
        std::fs::create_dir_all(&home)?;
        let mut driver = lab.start_line(&lab.bare(side, Who::Root, &words), &[("HOME", home.as_str())])?;
        ensure!(driver.wait_listening(PORT, ANSWER_WITHIN), "chromedriver does not listen:\n{}", driver.text());
        let mut browser = Browser { side, driver: Some(driver), session: String::new() };
        let args = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            format!("--user-data-dir={home}/profile"),
            format!("--window-size={width},{height}"),
        ]);
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": args}}}});
        let made = browser.call("POST", "/session", &wanted)?;
        browser.session = made["sessionId"].as_str().with_context(|| format!("no session: {made}"))?.to_owned();
        Ok(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let text = if method == "POST" { body.to_string() } else { String::new() };
        let headers = "Content-Type: application/json\r\n";
        let answer = http(self.side, PORT, method, path, headers, &text)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
        let mut value: Value = serde_json::from_str(body).with_context(|| answer.clone())?;
        let value = value["value"].take();
        match value["error"].as_str() {
            Some(error) => bail!("{path}: {error}: {}", value["message"].as_str().unwrap_or_default()),
            None => Ok(value),
        }
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        self.call(method, &format!("/session/{}{path}", self.session), body)
    }

    /// Opens an address.
    ///
    /// # Errors
    /// The browser cannot load it.
    pub fn open(&self, url: &str) -> Result<()> {
        self.command("POST", "/url", &json!({"url": url})).map(drop)
    }

    /// Evaluates the body of a JavaScript function in the page.
    ///
    /// # Errors
    /// It throws.
    pub fn run(&self, script: &str) -> Result<Value> {
        self.command("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a JavaScript expression is neither false, 0, "" nor null; returns its value.
    ///
    /// # Errors
    /// It does not become true in time.
    pub fn wait(&self, what: &str, expression: &str) -> Result<Value> {
        let until = Instant::now() + SHOWN_WITHIN;
        let script = format!("return {expression};");
        loop {
            let value = self.run(&script)?;
            let is_empty = value.is_null() || value == json!(false) || value == json!(0) || value == json!("");
            if !is_empty {
                return Ok(value);
            }
            if Instant::now() > until {
                let page = self.run("return document.body.innerText;")?;
                bail!("not within {SHOWN_WITHIN:?}: {what}:\n{}", page.as_str().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn element(&self, selector: &str) -> Result<String> {
        let found = self.command("POST", "/element", &json!({"using": "css selector", "value": selector}))?;
        Ok(found[ELEMENT].as_str().with_context(|| format!("no element {selector}"))?.to_owned())
    }

    /// Clicks the element of a CSS selector, where a person would.
    ///
    /// # Errors
    /// There is none, or something else covers it.
    pub fn click(&self, selector: &str) -> Result<()> {
        let element = self.element(selector)?;
        self.command("POST", &format!("/element/{element}/click"), &json!({}))
            .with_context(|| selector.to_owned())
            .map(drop)
    }

    /// Makes the page prefer a color scheme, `light` or `dark`, and gives it a width.
    ///
    /// # Errors
    /// The browser is gone.
    pub fn emulate(&self, scheme: &str, width: u64) -> Result<()> {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        let size = json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
        for (name, parameters) in [("Emulation.setEmulatedMedia", media), ("Emulation.setDeviceMetricsOverride", size)]
        {
            self.command("POST", "/goog/cdp/execute", &json!({"cmd": name, "params": parameters}))?;
        }
        Ok(())
    }

    /// Presses keys, one after the other, whatever has the focus. Special keys have WebDriver's code points.
    ///
    /// # Errors
    /// The browser is gone.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        let strokes = keys
            .iter()
            .flat_map(|key| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]);
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes.collect::<Vec<_>>()}]});
        self.command("POST", "/actions", &actions).map(drop)
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.command("DELETE", "", &Value::Null);
        }
        if let Some(driver) = self.driver.take() {
            driver.kill();
        }
    }
}
