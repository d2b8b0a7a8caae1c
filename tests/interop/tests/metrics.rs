//! Metrics: promtool judges the page, Debian's Prometheus scrapes the endpoint, and every query of the Grafana dashboard
//! returns data.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weft_interop::proc::Proc;
use weft_interop::{Fabric, Lab, Shape, Table, Who, product, skip};

const ENDPOINT: &str = "127.0.0.1:9836";
const PROMETHEUS: &str = "127.0.0.1:9090";
/// Time limit for a query to return data.
const DATA_WITHIN: Duration = Duration::from_secs(40);
/// Replaces Grafana's variable, which spans four scrapes.
const RATE_INTERVAL: &str = "8s";

#[test]
fn metrics() {
    if !skip::have("metrics", &["ip", "promtool", "prometheus", "ib_write_bw", "curl"]) {
        return;
    }
    let mut table = Table::new("metrics");
    let machine = Lab::new(Shape::One).expect("a lab");
    table.case("without a daemon", || without_daemon(&machine));
    table.case("a machine's page", || machine_page(&machine));
    drop(machine);
    let lab = Lab::new(Shape::Loopback).expect("a lab");
    let fabric = Fabric::managed(&lab, &["--packets", "--star", "3"]).expect("a fabric");
    table.case("Prometheus scrapes a fabric, and the dashboard has data", || dashboard(&lab, &fabric));
    table.case("connections are bounded, other requests are refused", || requests(&lab));
    table.finish();
}

/// Has promtool judge a page.
fn judge(lab: &Lab, page: &str) -> Result<()> {
    let file = lab.file("page");
    std::fs::write(&file, page)?;
    let script = format!("promtool check metrics < {}", file.display());
    let line = lab.bare(lab.client(), Who::Root, &["sh", "-c", &script]);
    let ended = lab.start_line(&line, &[])?.wait(Duration::from_secs(20));
    ensure!(ended.ok() && ended.text.trim().is_empty(), "{}", ended.report());
    Ok(())
}

fn without_daemon(lab: &Lab) -> Result<()> {
    let page = lab.weft(lab.client(), Who::Ordinary, &[], &["metrics"])?.success()?.text;
    ensure!(page.contains("\nweft_daemon_up 0\n"), "{page}");
    ensure!(lab.daemon(lab.client()).is_none(), "a scrape started a daemon");
    judge(lab, &page)
}

fn machine_page(lab: &Lab) -> Result<()> {
    let pair = weft_interop::Pair::new("ib_write_bw", "-D 20 -s 4096 -F").devices(lab)?.env("WEFT_LOOPBACK", "wire");
    let server = pair.start_server(lab)?;
    let client = pair.start_client(lab)?;
    std::thread::sleep(Duration::from_secs(3));
    let file = lab.file("weft.prom").display().to_string();
    lab.weft(lab.client(), Who::Root, &[], &["metrics", "--output", &file])?.success()?;
    let page = std::fs::read_to_string(&file)?;
    judge(lab, &page)?;
    let device = &lab.device(lab.client())?.name;
    for metric in ["weft_qp_round_trip_seconds", "weft_qp_transmit_bytes_total", "weft_adapter_transmit_bytes_total"] {
        let start = format!("{metric}{{device=\"{device}\"");
        let value = page.lines().filter(|line| line.starts_with(&start)).filter_map(value_of).fold(0.0, f64::max);
        ensure!(value > 0.0, "{metric} is {value}:\n{page}");
    }
    let few = lab.weft(lab.client(), Who::Root, &[], &["metrics", "--queue-pairs", "1"])?.success()?.text;
    ensure!(few.matches("\nweft_qp_transmit_bytes_total{").count() == 1, "{few}");
    ensure!(few.contains("\nweft_omitted{kind=\"queue_pair\"} 1\n"), "{few}");
    client.kill();
    server.kill();
    Ok(())
}

fn value_of(line: &str) -> Option<f64> {
    line.rsplit(' ').next()?.parse().ok()
}

/// Starts the endpoint, and Prometheus, which scrapes it each second.
fn start_scraping(lab: &Lab) -> Result<[Proc; 2]> {
    let weft = product::weft()?.display().to_string();
    let mut endpoint = lab.start_bare(lab.client(), Who::Root, &[&weft, "metrics", "--listen"])?;
    let listens =
        endpoint.wait_until(Duration::from_secs(10), |it| it.text().contains("http://127.0.0.1:9836/metrics"));
    ensure!(listens, "the endpoint does not listen: {}", endpoint.text());
    let config = lab.file("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: weft\n  static_configs:\n  - targets: ['{ENDPOINT}']\n"
    );
    std::fs::write(&config, text)?;
    let words = [
        "prometheus".to_owned(),
        format!("--config.file={}", config.display()),
        format!("--storage.tsdb.path={}", lab.file("tsdb").display()),
        format!("--web.listen-address={PROMETHEUS}"),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut prometheus = lab.start_bare(lab.client(), Who::Root, &words)?;
    let ready = prometheus.wait_listening(9090, Duration::from_secs(30));
    ensure!(ready, "Prometheus does not listen: {}", prometheus.text());
    Ok([endpoint, prometheus])
}

/// Runs a query; returns its answer.
fn query(lab: &Lab, expression: &str) -> Result<Value> {
    let parameter = format!("query={expression}");
    let address = format!("http://{PROMETHEUS}/api/v1/query");
    let words = ["curl", "-sS", "-G", "--data-urlencode", &parameter, &address];
    let line = lab.bare(lab.client(), Who::Root, &words);
    let ended = lab.start_line(&line, &[])?.wait(Duration::from_secs(20)).success()?;
    serde_json::from_str(&ended.text).with_context(|| ended.report())
}

/// The queries of the dashboard, each with the title of its panel. Checks what Grafana needs to load it.
fn queries() -> Result<Vec<(String, String)>> {
    let file = product::root().join("dist/grafana/weft.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    ensure!(dashboard["title"] == "Weft" && dashboard["schemaVersion"].as_u64() >= Some(36), "{}", file.display());
    ensure!(dashboard["templating"]["list"][0]["name"] == "datasource", "no variable for the data source");
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let mut ids: Vec<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    ids.sort_unstable();
    ids.dedup();
    ensure!(ids.len() == panels.len(), "panels without ids of their own");
    let mut queries = Vec::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().context("a panel without a title")?;
        ensure!(panel["datasource"]["uid"] == "${datasource}", "{title} has another data source");
        ensure!(panel["gridPos"]["w"].as_u64() > Some(0), "{title} has no place");
        for target in panel["targets"].as_array().with_context(|| format!("{title} has no queries"))? {
            let expression = target["expr"].as_str().with_context(|| format!("{title}: a query without expression"))?;
            queries.push((title.to_owned(), expression.replace("$__rate_interval", RATE_INTERVAL)));
        }
    }
    Ok(queries)
}

fn dashboard(lab: &Lab, fabric: &Fabric<'_>) -> Result<()> {
    let words = ["ib_write_bw", "-d", "weft0", "-F", "-D", "120"];
    let mut server = lab.start_line(&fabric.words("node2", &words)?, &[])?;
    ensure!(server.wait_listening(18515, Duration::from_secs(15)), "no server:\n{}", server.text());
    let client = lab.start_line(&fabric.words("node3", &[&words[..], &["node2"]].concat())?, &[])?;
    let scraping = start_scraping(lab)?;
    let until = Instant::now() + DATA_WITHIN;
    let queries = queries()?;
    ensure!(queries.len() > 15, "{} queries", queries.len());
    for (title, expression) in &queries {
        loop {
            let answer = query(lab, expression)?;
            ensure!(answer["status"] == "success", "{title}: {expression}: {answer}");
            if answer["data"]["result"].as_array().is_some_and(|result| !result.is_empty()) {
                break;
            }
            ensure!(Instant::now() < until, "{title}: no data for {expression}\n{}", client.text());
            std::thread::sleep(Duration::from_millis(500));
        }
    }
    let sent = query(lab, "rate(weft_port_transmit_bytes_total{node=\"node3\",port=\"1\"}[8s])")?;
    let rate = sent["data"]["result"][0]["value"][1].as_str().and_then(|value| value.parse::<f64>().ok());
    ensure!(rate > Some(1e6), "node3 sends {rate:?} bytes a second: {sent}");
    let up = query(lab, "up{job=\"weft\"}")?;
    ensure!(up["data"]["result"][0]["value"][1] == "1", "{up}");
    println!("{} queries of the dashboard return data; node3 sends {rate:?} bytes a second", queries.len());
    let page = lab.weft(lab.client(), Who::Root, &[], &["metrics"])?.success()?.text;
    judge(lab, &page)?;
    let managers = lab.weft(lab.client(), Who::Root, &[], &["sm", "metrics"])?.success()?.text;
    judge(lab, &managers)?;
    let lines = managers.lines().filter(|line| line.starts_with("# TYPE "));
    ensure!(lines.clone().count() == 15 && lines.clone().all(|line| page.contains(line)), "{managers}");
    for process in scraping {
        process.kill();
    }
    client.kill();
    server.kill();
    Ok(())
}

fn requests(lab: &Lab) -> Result<()> {
    let weft = product::weft()?.display().to_string();
    let mut endpoint = lab.start_bare(lab.client(), Who::Root, &[&weft, "metrics", "--listen", "127.0.0.1:9837"])?;
    ensure!(endpoint.wait_listening(9837, Duration::from_secs(10)), "{}", endpoint.text());
    let taken = lab.weft(lab.client(), Who::Root, &[], &["metrics", "--listen", "127.0.0.1:9837"])?;
    ensure!(!taken.ok() && taken.text.contains("cannot listen at 127.0.0.1:9837: "), "{}", taken.report());
    let status = |words: &[&str]| -> Result<String> {
        let words = [&["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}"], words].concat();
        let line = lab.bare(lab.client(), Who::Root, &words);
        Ok(lab.start_line(&line, &[])?.wait(Duration::from_secs(10)).success()?.text)
    };
    for (words, expected) in [
        (&["http://127.0.0.1:9837/metrics"][..], "200"),
        (&["-I", "http://127.0.0.1:9837/metrics"], "200"),
        (&["http://127.0.0.1:9837/"], "200"),
        (&["http://127.0.0.1:9837/other"], "404"),
        (&["-X", "POST", "http://127.0.0.1:9837/metrics"], "405"),
    ] {
        let code = status(words)?;
        ensure!(code == expected, "{words:?}: {code}");
    }
    endpoint.kill();
    Ok(())
}
