//! A browser without a window, and the few commands of its debugging protocol that the tests need.
//!
//! ```text
//! test ─ JSON, NUL-terminated ─▶ fd 3 ┐
//!                                     ├ chromium --remote-debugging-pipe
//! test ◀ JSON, NUL-terminated ── fd 4 ┘
//! ```
//!
//! The protocol is that of <https://chromedevtools.github.io/devtools-protocol/>. A pipe needs
//! neither a port nor a library.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// An answer that does not come within this means that the browser hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the browser is.
pub(crate) fn program() -> Option<PathBuf> {
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
        .map(PathBuf::from)
        .into_iter()
        .find(|p| p.exists())
}

/// A running browser; ends with this value.
pub(crate) struct Browser {
    child: Child,
    to: RefCell<ChildStdin>,
    from: Receiver<Value>,
    last_id: RefCell<u64>,
    /// Unasked messages.
    events: RefCell<Vec<Value>>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one with an empty profile.
    pub(crate) fn start() -> Result<Self, String> {
        let profile = tempfile::tempdir().map_err(|e| e.to_string())?;
        let program = program().ok_or("there is no chromium")?;
        // The pipe's ends are to be descriptors 3 and 4.
        let mut child = Command::new("/bin/sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("can't start chromium: {e}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        Ok(Self {
            child,
            to: RefCell::new(to),
            from: listen(from),
            last_id: RefCell::new(0),
            events: RefCell::new(Vec::new()),
            _profile: profile,
        })
    }

    /// Opens a page in a new tab and waits until it is loaded.
    pub(crate) fn open(&self, file: &Path, viewport: Viewport) -> Result<Page<'_>, String> {
        let target = self.call(None, "Target.createTarget", json!({"url": "about:blank"}))?;
        let attached = self.call(
            None,
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        )?;
        let session = attached["sessionId"].as_str().ok_or("no session")?.to_owned();
        let page = Page { browser: self, session };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}))?;
        }
        page.resize(viewport)?;
        let scheme = if viewport.dark { "dark" } else { "light" };
        page.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        )?;
        page.call("Page.navigate", json!({"url": format!("file://{}", file.display())}))?;
        self.wait_for(|event| {
            event["method"] == "Page.loadEventFired"
                && event["sessionId"].as_str() == Some(&page.session)
        })?;
        Ok(page)
    }

    fn call(
        &self,
        session: Option<&str>,
        method: &str,
        parameters: Value,
    ) -> Result<Value, String> {
        let id = {
            let mut last = self.last_id.borrow_mut();
            *last += 1;
            *last
        };
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.borrow_mut().write_all(&bytes).map_err(|e| format!("{method}: {e}"))?;
        let answer = self.wait_for(|m| m["id"] == id)?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}")),
            None => Ok(answer["result"].clone()),
        }
    }

    /// The next message that fits; the others are kept as events.
    fn wait_for(&self, fits: impl Fn(&Value) -> bool) -> Result<Value, String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.from.recv_timeout(left) {
                Ok(message) if fits(&message) => return Ok(message),
                Ok(message) => self.events.borrow_mut().push(message),
                Err(RecvTimeoutError::Timeout) => return Err("chromium does not answer".into()),
                Err(RecvTimeoutError::Disconnected) => return Err("chromium ended".into()),
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.call(None, "Browser.close", json!({}));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Messages from the browser, read on a separate thread so that waiting for one can end.
fn listen(from: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut message = Vec::new();
        while from.read_until(0, &mut message).is_ok_and(|n| n > 0) {
            message.pop();
            if let Ok(value) = serde_json::from_slice(&message)
                && sender.send(value).is_err()
            {
                return;
            }
            message.clear();
        }
    });
    receiver
}

/// What a page is shown on.
#[derive(Clone, Copy)]
pub(crate) struct Viewport {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
}

/// A screen.
pub(crate) const SCREEN: Viewport = Viewport { width: 1_280, height: 900, dark: false };
/// A small phone.
pub(crate) const PHONE: Viewport = Viewport { width: 360, height: 740, dark: false };

/// A tab.
pub(crate) struct Page<'a> {
    browser: &'a Browser,
    session: String,
}

impl Page<'_> {
    pub(crate) fn call(&self, method: &str, parameters: Value) -> Result<Value, String> {
        self.browser.call(Some(&self.session), method, parameters)
    }

    pub(crate) fn resize(&self, v: Viewport) -> Result<(), String> {
        let mobile = v.width < 600;
        let metrics = json!({"width": v.width, "height": v.height, "deviceScaleFactor": 1,
                             "mobile": mobile});
        self.call("Emulation.setDeviceMetricsOverride", metrics).map(drop)
    }

    /// What an expression is in the page.
    pub(crate) fn eval(&self, expression: &str) -> Result<Value, String> {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", parameters)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(format!("{expression}: {details}")),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    pub(crate) fn text(&self, expression: &str) -> Result<String, String> {
        Ok(self.eval(expression)?.as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn number(&self, expression: &str) -> Result<f64, String> {
        self.eval(expression)?.as_f64().ok_or_else(|| format!("{expression} is no number"))
    }

    /// Moves the pointer over the middle of an element, or to shares of its size.
    pub(crate) fn point_at(&self, selector: &str, x: f64, y: f64) -> Result<(), String> {
        let at = self.eval(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); \
             e.scrollIntoView({{block: 'center'}}); \
             const b = e.getBoundingClientRect(); return [b.left + b.width * {x}, b.top + b.height \
             * {y}]; }})()"
        ))?;
        let event = json!({"type": "mouseMoved", "x": at[0], "y": at[1]});
        self.call("Input.dispatchMouseEvent", event).map(drop)
    }

    pub(crate) fn click(&self, selector: &str) -> Result<(), String> {
        self.point_at(selector, 0.5, 0.5)?;
        let at = self.eval(&format!(
            "(() => {{ const b = document.querySelector({selector:?}).getBoundingClientRect(); \
             return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        ))?;
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Presses a key on whatever has the focus.
    pub(crate) fn press(&self, key: &str) -> Result<(), String> {
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            other => return Err(format!("the tests know no key {other}")),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "code": key,
                               "windowsVirtualKeyCode": code, "text": text});
            self.call("Input.dispatchKeyEvent", event)?;
        }
        Ok(())
    }

    /// A picture of the visible part of the page, as PNG in base64.
    pub(crate) fn screenshot(&self) -> Result<String, String> {
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"}))?;
        Ok(answer["data"].as_str().unwrap_or_default().to_owned())
    }

    /// The page's errors, and its requests to the network besides itself.
    pub(crate) fn complaints(&self) -> Result<Vec<String>, String> {
        // What the page has said until now has arrived once it answers.
        self.eval("0")?;
        let events = self.browser.events.borrow();
        let own = events.iter().filter(|e| e["sessionId"].as_str() == Some(self.session.as_str()));
        let complaint = |e: &Value| {
            let parameters = &e["params"];
            match e["method"].as_str()? {
                "Runtime.exceptionThrown" => {
                    Some(format!("exception: {}", parameters["exceptionDetails"]))
                }
                "Runtime.consoleAPICalled" => Some(format!("console: {}", parameters["args"])),
                "Log.entryAdded" => Some(format!("log: {}", parameters["entry"])),
                "Network.requestWillBeSent" if parameters["type"] != "Document" => {
                    Some(format!("request: {}", parameters["request"]["url"]))
                }
                _ => None,
            }
        };
        Ok(own.filter_map(complaint).collect())
    }
}
