//! The addresses of the server, and the gate before all of them.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST, HeaderName, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::oneshot;

use super::access::{Access, Asked, Gate};
use super::action::Action;
use super::headers;
use super::stream::EventBody;
use crate::hub::Hub;
use crate::limits::{ACTION_TIMEOUT, BODY_BYTES_MAX};
use crate::page::{self, File};
use crate::poller::Command;

/// State of the handlers.
#[derive(Clone, Debug)]
pub struct App {
    /// The gate.
    pub gate: Arc<Gate>,
    /// The model and its pages.
    pub hub: Arc<Hub>,
    /// Commands to the thread that speaks with the daemon.
    pub daemon: SyncSender<Command>,
    /// Commands to the thread that speaks with subnet managers.
    pub managers: SyncSender<Command>,
}

/// Makes the router.
pub fn router(app: App) -> Router {
    let mut router = Router::new()
        .route("/api/events", get(events))
        .route("/api/action", post(action))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    for file in page::FILES {
        router = router.route(file.path, get(move || async move { answer(file) }));
    }
    router.layer(from_fn_with_state(app.clone(), guard)).with_state(app)
}

fn answer(file: &'static File) -> Response {
    ([(CONTENT_TYPE, file.content_type)], file.content).into_response()
}

/// Lets pass whoever has the token, and adds the headers of every answer.
async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let access = judge(&app, &request);
    let mut response = match access {
        Access::Granted | Access::Entered => next.run(request).await,
        Access::NoToken => refuse(
            StatusCode::UNAUTHORIZED,
            "open the address that `weft ui` printed: it has the token that this needs\n",
        ),
        Access::OtherHost => refuse(StatusCode::FORBIDDEN, "this server is not known by that name\n"),
        Access::OtherOrigin => refuse(StatusCode::FORBIDDEN, "requests of other sites are refused\n"),
    };
    if access == Access::Entered
        && let Ok(cookie) = HeaderValue::from_str(&app.gate.set_cookie())
    {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    headers::add(response.headers_mut());
    response
}

fn judge(app: &App, request: &Request) -> Access {
    let cookies = cookies(request.headers());
    let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    app.gate.judge(&Asked {
        query: request.uri().query(),
        host: text(HOST),
        origin: text(ORIGIN),
        site: text(HeaderName::from_static("sec-fetch-site")),
        cookies: &cookies,
        changes: !matches!(*request.method(), Method::GET | Method::HEAD),
    })
}

fn cookies(headers: &HeaderMap) -> String {
    let all: Vec<&str> = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).collect();
    all.join(";")
}

fn refuse(status: StatusCode, text: &'static str) -> Response {
    (status, text).into_response()
}

async fn events(State(app): State<App>) -> Response {
    let Some(events) = app.hub.join() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n");
    };
    // The pollers look more often from now on; one that is busy finds out by itself.
    let _ = app.daemon.try_send(Command::Look);
    let _ = app.managers.try_send(Command::Look);
    let body = Body::new(EventBody::new(events));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn action(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Response {
    let is_json = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "an action is JSON\n");
    }
    if app.hub.look(|model| model.read_only) {
        return refuse(StatusCode::FORBIDDEN, "`weft ui --read-only` changes nothing\n");
    }
    match Action::parse(&body) {
        Ok(action) => match done(&app, action).await {
            Ok(()) => StatusCode::NO_CONTENT.into_response(),
            Err(text) => (StatusCode::CONFLICT, text + "\n").into_response(),
        },
        Err(text) => (StatusCode::BAD_REQUEST, text + "\n").into_response(),
    }
}

/// Hands an action to the thread that can do it, and waits for the end.
async fn done(app: &App, action: Action) -> Result<(), String> {
    let thread = match action {
        Action::Fabric(..) => &app.daemon,
        Action::Sweep | Action::Routing => &app.managers,
    };
    let (answer, end) = oneshot::channel();
    thread.try_send(Command::Act(action, answer)).map_err(|_| "too many actions at a time; try again".to_owned())?;
    match tokio::time::timeout(ACTION_TIMEOUT, end).await {
        Ok(Ok(result)) => result,
        _ => Err("no answer in time".to_owned()),
    }
}
