//! A page without its content: head, links at the top, stylesheet, script.

use std::fmt::Write;

use super::markup::escaped;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A whole page. `links` are the label of the one that skips the top, and ids with their names;
/// `main` and `end` are markup.
pub(super) fn document(
    title: &str,
    (skip, links): (&str, &[(String, String)]),
    main: &str,
    end: &str,
) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = String::with_capacity(main.len() + (1 << 16));
    // Writing to a String never fails.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"generator\" content=\"floodwall {version}\">\n\
         <title>Floodwall report: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">{}</a>\n",
        escaped(title),
        escaped(skip),
    );
    header(&mut out, links);
    let _ = write!(
        out,
        "<main id=\"main\">\n{main}</main>\n\
         <footer>Written by floodwall {version}. {end}</footer>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
    );
    out
}

fn header(out: &mut String, links: &[(String, String)]) {
    out.push_str(
        "<header class=\"top\">\n<span class=\"brand\"><svg viewBox=\"0 0 24 24\" \
        aria-hidden=\"true\"><path d=\"M3 4h5v16H3zM10 8h4v12h-4zM16 \
        12h5v8h-5z\"/></svg>Floodwall</span>\n<nav aria-label=\"Sections\"><ul>\n",
    );
    for (id, name) in links {
        let _ = writeln!(out, "<li><a href=\"#{id}\">{}</a></li>", escaped(name));
    }
    out.push_str(
        "</ul></nav>\n<button type=\"button\" id=\"theme\" aria-pressed=\"false\" \
        hidden>Dark</button>\n</header>\n",
    );
}
