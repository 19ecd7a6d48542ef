// What a page can't do by itself: the theme's button, what is under the pointer, sorting, copying. Without it everything else is still there.
"use strict";
(() => {
  const root = document.documentElement;

  // Theme: what the system prefers, until the button says otherwise.
  const button = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(isDark()));
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  prefersDark.addEventListener("change", label);
  label();

  // Numbers, written as the program writes them: three digits and a unit.
  const digits = (v) => (v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2)).replace(/\.0+$/, "");
  const scaled = (v, units) => {
    const [name, size] = units.find(([, size]) => v >= size * 0.9995) || units[units.length - 1];
    return digits(v / size) + " " + name;
  };
  const write = {
    us: (v) => scaled(v, [["s", 1e6], ["ms", 1e3], ["µs", 1]]),
    bytes: (v) => scaled(v, [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 1024], ["B", 1]]),
    bytes_per_s: (v) => scaled(v, [["GB/s", 1e9], ["MB/s", 1e6], ["kB/s", 1e3], ["B/s", 1]]),
    per_s: (v) => (v >= 100 ? Math.round(v).toLocaleString("en") : digits(v)) + "/s",
  };

  const text = (parent, tag, content) => {
    const e = parent.appendChild(document.createElement(tag));
    e.textContent = content;
    return e;
  };

  function chart(figure) {
    const plot = figure.querySelector(".plot");
    const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    const cursor = plot.querySelector(".cursor");
    const tip = plot.querySelector(".tip");
    const points = data.kind === "points";
    const count = points ? data.points.length : data.x.length;
    cursor.classList.add(points ? "ring" : "bar");
    plot.setAttribute("aria-valuemin", "0");
    plot.setAttribute("aria-valuemax", String(Math.max(count - 1, 0)));
    let at = -1;

    // The plotting area as it is shown now, in pixels of the page.
    const area = () => {
      const which = plot.querySelector(".wide").offsetParent ? 0 : 1;
      const scale = plot.clientWidth / data.widths[which];
      const [left, top, width, height] = data.plots[which].map((v) => v * scale);
      return { left, top, width, height, which };
    };
    const place = (i, a) => points
      ? [a.left + data.points[i].at[a.which][0] * a.width, a.top + data.points[i].at[a.which][1] * a.height]
      : [a.left + data.x[i] * a.width, a.top];

    function show(i) {
      at = Math.min(Math.max(i, 0), count - 1);
      const a = area();
      const [x, y] = place(at, a);
      cursor.hidden = false;
      cursor.style.left = x + "px";
      cursor.style.top = y + "px";
      if (!points) cursor.style.height = a.height + "px";
      tip.replaceChildren();
      let said;
      if (points) {
        const p = data.points[at];
        text(tip, "b", p.name);
        for (const line of p.lines) text(tip, "p", line).style.margin = "0";
        said = [p.name, ...p.lines].join(", ");
      } else {
        text(tip, "b", data.at[at]);
        const parts = [data.at[at]];
        for (const c of data.curves) {
          const v = c.y[at];
          if (v === null) continue;
          const row = tip.appendChild(document.createElement("div"));
          row.appendChild(document.createElement("i")).style.background = "var(--c" + c.color.slice(1) + ")";
          text(row, "span", c.name);
          text(row, "b", write[c.unit](v)).style.margin = "0";
          parts.push(c.name + " " + write[c.unit](v));
        }
        said = parts.join(", ");
      }
      tip.hidden = false;
      const gap = 14;
      const right = x + gap + tip.offsetWidth <= plot.clientWidth;
      const left = right ? x + gap : Math.max(0, x - gap - tip.offsetWidth);
      const top = points ? y - tip.offsetHeight / 2 : a.top;
      tip.style.left = Math.min(left, plot.clientWidth - tip.offsetWidth) + "px";
      tip.style.top = Math.min(Math.max(top, 0), Math.max(0, plot.clientHeight - tip.offsetHeight)) + "px";
      plot.setAttribute("aria-valuenow", String(at));
      plot.setAttribute("aria-valuetext", said);
    }
    function hide() {
      cursor.hidden = tip.hidden = true;
    }
    function nearest(event) {
      const box = plot.getBoundingClientRect();
      const [px, py] = [event.clientX - box.left, event.clientY - box.top];
      const a = area();
      let best = -1;
      let distance = points ? 60 * 60 : Infinity;
      for (let i = 0; i < count; i++) {
        const [x, y] = place(i, a);
        const d = points ? (x - px) ** 2 + (y - py) ** 2 : Math.abs(x - px);
        if (d < distance) [best, distance] = [i, d];
      }
      return best;
    }
    if (!count) return;
    const follow = (event) => {
      const i = nearest(event);
      if (i < 0) hide();
      else if (i !== at || tip.hidden) show(i);
    };
    plot.addEventListener("pointermove", follow);
    plot.addEventListener("pointerdown", follow);
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    // With the keyboard points are taken from left to right.
    const order = [...Array(count).keys()];
    if (points) order.sort((i, j) => data.points[i].at[0][0] - data.points[j].at[0][0] || data.points[i].at[0][1] - data.points[j].at[0][1]);
    plot.addEventListener("keydown", (event) => {
      const now = at < 0 || tip.hidden ? -1 : order.indexOf(at);
      const far = Math.max(1, Math.round(count / 10));
      const next = {
        ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now < 0 ? count - 1 : now - 1, ArrowDown: now < 0 ? count - 1 : now - 1,
        PageUp: now + far, PageDown: now - far, Home: 0, End: count - 1,
      }[event.key];
      if (event.key === "Escape") hide();
      if (next === undefined) return;
      event.preventDefault();
      show(order[Math.min(Math.max(next, 0), count - 1)]);
    });
  }
  document.querySelectorAll("figure[data-chart]").forEach(chart);

  // Another setting's course, made when it is asked for.
  for (const select of document.querySelectorAll("select[data-target]")) {
    select.closest(".chooser").hidden = false;
    const target = document.getElementById(select.dataset.target);
    select.addEventListener("change", () => {
      target.replaceChildren();
      const template = select.value && document.getElementById(select.value);
      if (!template) return;
      target.append(template.content.cloneNode(true));
      target.querySelectorAll("figure[data-chart]").forEach(chart);
    });
  }

  // Tables: the first click on numbers puts the largest on top, the next one turns the order; what is not known stays below.
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const body = table.tBodies[0];
      const rows = [...body.rows];
      const key = (row) => {
        const cell = row.cells[column];
        if (!("v" in cell.dataset)) return cell.textContent;
        return cell.dataset.v === "" ? null : Number(cell.dataset.v);
      };
      const numbers = rows.some((row) => "v" in row.cells[column].dataset);
      const before = head.getAttribute("aria-sort");
      const ascending = before === "none" ? !numbers : before === "descending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const sign = ascending ? 1 : -1;
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (numbers ? x - y : x.localeCompare(y, "en", { numeric: true }));
      };
      body.append(...rows.sort(compare));
    }));
  }

  for (const copy of document.querySelectorAll("button.copy")) {
    copy.hidden = !navigator.clipboard;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(copy.dataset.copy).textContent);
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy"), 1500);
    });
  }
})();
