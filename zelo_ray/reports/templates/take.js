"use strict";
// Takes tables and charts away: to the clipboard, as CSV, as SVG and as PNG. Nothing leaves the browser.
const offerToTake = (() => {
  const all = (selector, root) => [...root.querySelectorAll(selector)];
  const tidy = (node) => node.textContent.replace(/\s+/g, " ").trim();

  // A number as programs read it; text that a spreadsheet would take for a formula is marked as text.
  const NUMBER = /^[+\u2212-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?%?$/;
  const valueOf = (text, isNumber) => {
    if (isNumber && NUMBER.test(text)) return text.replaceAll(",", "").replace("\u2212", "-").replace("+", "");
    return /^[=+\-@\uff0b\uff0d\uff1d\uff20]/.test(text) ? `'${text}` : text;
  };
  // The whole table, its folded rows too; columns without a heading are pictures.
  const rowsOf = (root) => {
    const heads = all("thead tr", root)[0].cells;
    const kept = [...heads].map((_, i) => i).filter((i) => tidy(heads[i]));
    const bodies = all("tbody > tr", root).filter((row) => row.cells.length === heads.length && !row.parentElement.closest("td"));
    return [heads, ...bodies.map((row) => row.cells)].map((cells) => kept.map((i) => valueOf(tidy(cells[i]), heads[i].matches(".n"))));
  };
  const quoted = (text) => (/[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const asCSV = (rows) => `\uFEFF${rows.map((row) => `${row.map(quoted).join(",")}\r\n`).join("")}`;
  const asTSV = (rows) => rows.map((row) => row.join("\t")).join("\n");

  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const box = document.createElement("textarea");
      box.value = text;
      box.className = "unseen";
      const before = document.activeElement;
      document.body.append(box);
      box.select();
      const copied = document.execCommand("copy");
      box.remove();
      before?.focus();
      if (!copied) throw new Error("not copied");
    }
  };
  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  // Colours and letters as they are computed, in words that every program knows.
  const PAINTED = ["fill", "stroke", "stroke-width", "opacity", "font-size", "display"];
  const known = (value) =>
    value.replace(/color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)[^)]*\)/g, (_, ...parts) => `rgb(${parts.slice(0, 3).map((part) => Math.round(255 * part)).join(", ")})`);
  const resolved = (drawn) => {
    const twin = drawn.cloneNode(true);
    const [from, to] = [all("*", drawn), all("*", twin)];
    from.forEach((node, i) => {
      const style = getComputedStyle(node);
      to[i].removeAttribute("class");
      to[i].removeAttribute("style");
      if (!/^(path|rect|text|g|svg)$/.test(node.localName)) return;
      const leaf = node.localName !== "g" && node.localName !== "svg";
      for (const name of leaf ? PAINTED : ["display"]) {
        const value = known(style.getPropertyValue(name));
        if (name === "display" ? value === "none" : name === "font-size" ? node.localName === "text" : value) to[i].setAttribute(name, value);
      }
    });
    for (const name of ["class", "style", "role"]) twin.removeAttribute(name);
    return twin;
  };
  const svg = (name, props, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const pen = document.createElement("canvas").getContext("2d");
  const wrapped = (text, font, width) => {
    pen.font = font;
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = `${lines[lines.length - 1]} ${word}`.trim();
      if (lines[lines.length - 1] && pen.measureText(longer).width > width) lines.push(word);
      else lines[lines.length - 1] = longer;
    }
    return lines;
  };
  // The chart with its heading, its legend where it stands on the page, and its caption's first sentence.
  const pictureOf = (figure) => {
    const [plot, EDGE, LINE] = [figure.querySelector(".plot"), 16, 18];
    const page = getComputedStyle(document.body);
    const dim = getComputedStyle(figure.querySelector("figcaption")).color;
    const [place, width] = [plot.getBoundingClientRect(), plot.clientWidth];
    const chosen = all("label", figure).map((label) => `${label.firstChild.data.trim()}: ${label.querySelector("select").value}`);
    const title = [titleOf(figure), ...chosen].join(" · ");
    const caption = tidy(figure.querySelector("figcaption")).split(/(?<=\.) /)[0];
    const texts = [];
    let y = EDGE;
    const write = (text, size, colour, weight = 400) => {
      for (const line of wrapped(text, `${weight} ${size}px system-ui, sans-serif`, width)) {
        y += LINE;
        texts.push(svg("text", { x: EDGE, y: y - 4, "font-size": size, "font-weight": weight, fill: colour }, line));
      }
    };
    write(title, 15, page.color, 600);
    y += 6;
    const inner = svg("g", { transform: `translate(${EDGE} ${y})` });
    for (const drawn of all("svg", plot)) {
      const box = drawn.getBoundingClientRect();
      const twin = resolved(drawn);
      twin.setAttribute("x", box.left - place.left);
      twin.setAttribute("y", box.top - place.top);
      const button = drawn.closest("button");
      const group = svg("g", button?.classList.contains("off") ? { opacity: 0.4 } : {}, twin);
      if (button) group.append(svg("text", { x: box.right - place.left + 4, y: box.bottom - place.top - 2, "font-size": 12, fill: page.color }, tidy(button)));
      inner.append(group);
    }
    y += place.height;
    write(caption, 12, dim);
    const size = { width: width + 2 * EDGE, height: Math.ceil(y + EDGE) };
    const paper = svg("rect", { ...size, fill: page.backgroundColor });
    const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", ...size, viewBox: `0 0 ${size.width} ${size.height}`, "font-family": "system-ui, sans-serif", "font-size": 12 }, paper, inner, ...texts);
    return { ...size, text: new XMLSerializer().serializeToString(root) };
  };
  const png = async ({ text, width, height }) => {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    const scale = Math.min(2, 16000 / Math.max(width, height));
    [canvas.width, canvas.height] = [width * scale, height * scale];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  };

  const home = (figure) => figure.closest("section");
  const titleOf = (figure) => [home(figure)?.querySelector("h2"), figure.closest("details")?.querySelector("summary > b"), figure.querySelector("h3")].filter(Boolean).map(tidy).join(" · ");
  const nameOf = (figure) => {
    const within = figure.closest(".queries > details") || home(figure) || document.body;
    const place = all("figure, .ranked", within).indexOf(figure);
    return `${within.id || "page"}${place > 0 ? `-${place + 1}` : ""}`;
  };
  const button = (word, label, task) => {
    const node = document.createElement("button");
    Object.assign(node, { type: "button", textContent: word, title: label, ariaLabel: label });
    node.addEventListener("click", async () => {
      let told = "done";
      try {
        await task();
      } catch {
        told = "failed";
      }
      node.textContent = told;
      spoken.textContent = `${label}: ${told}`;
      setTimeout(() => (node.textContent = word), 1500);
    });
    return node;
  };
  const spoken = Object.assign(document.createElement("div"), { className: "unseen" });
  spoken.setAttribute("role", "status");
  document.body.append(spoken);

  const offerToTake = (figure) => {
    const bar = Object.assign(document.createElement("div"), { className: "take" });
    const of = titleOf(figure) || document.title;
    if (figure.querySelector(".plot")) {
      const picture = () => pictureOf(figure);
      bar.append(
        button("PNG", `Save the chart as PNG: ${of}`, async () => save(await png(picture()), `${nameOf(figure)}.png`)),
        button("SVG", `Save the chart as SVG: ${of}`, () => save(new Blob([picture().text], { type: "image/svg+xml" }), `${nameOf(figure)}.svg`)),
      );
    } else {
      bar.append(
        button("copy", `Copy the table: ${of}`, () => copy(asTSV(rowsOf(figure)))),
        button("CSV", `Save the table as CSV: ${of}`, () => save(new Blob([asCSV(rowsOf(figure))], { type: "text/csv;charset=utf-8" }), `${nameOf(figure)}.csv`)),
      );
    }
    figure.append(bar);
  };
  for (const figure of all("figure.table, figure.chart, figure.duel", document)) offerToTake(figure);
  return offerToTake;
})();
