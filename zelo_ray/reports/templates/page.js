"use strict";
// Draws what stands in the page's data. Text from data becomes text nodes, or goes through plain().
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const el = (name, props, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(props || {})) key in node ? (node[key] = value) : node.setAttribute(key, value);
    node.append(...children.filter((child) => child != null));
    return node;
  };
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const short = (text, length) => (text.length > length ? `${text.slice(0, length / 2 - 1)}…${text.slice(-length / 2)}` : text);
  const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(2);
  const by = (key) => (a, b) => key(a) - key(b);

  const stored = (figure) => JSON.parse(figure.querySelector("script").textContent);

  for (const node of all("figure.chart")) {
    const figures = new Map(stored(node).map(([names, figure]) => [[names].flat().join("\n"), figure]));
    const selects = all("select", node);
    const plot = node.querySelector(".plot");
    plot.style.minHeight = `${[...figures.values()][0].layout.height}px`;
    const chosen = () => (selects.length ? figures.get(selects.map((select) => select.value).join("\n")) : [...figures.values()][0]);
    drawLater(plot, () => drawChart(plot, chosen()));
    for (const select of selects) select.addEventListener("change", () => plot.firstChild && chosen() && drawChart(plot, chosen()));
  }
  const alike = all("select[data-choice]");
  const choose = (select) => {
    for (const other of alike) {
      if (other === select || other.dataset.choice !== select.dataset.choice || other.value === select.value) continue;
      if (![...other.options].some((option) => option.value === select.value)) continue;
      other.value = select.value;
      other.dispatchEvent(new Event("change"));
    }
  };
  for (const select of alike) select.addEventListener("change", (event) => event.isTrusted && choose(select));

  // Two runs against each other.
  for (const node of all("figure.duel")) {
    const { measure, rankers, queries } = stored(node);
    const told = new Map(rankers.map(([name, label, values]) => [name, { label, values }]));
    const [up, across] = [node.querySelector(".up"), node.querySelector(".across")];
    const show = () => {
      const [x, y] = [told.get(across.value).values, told.get(up.value).values];
      const both = queries.map((_, i) => i).filter((i) => x[i] !== null && y[i] !== null);
      const known = both.flatMap((i) => [x[i], y[i]]);
      const [low, high] = [Math.min(...known), Math.max(...known)];
      const room = 0.04 * (high - low || 1);
      const [above, below] = [both.filter((i) => y[i] > x[i]).length, both.filter((i) => y[i] < x[i]).length];
      const axis = (select) => ({ title: { text: `${told.get(select.value).label}, ${plain(measure)}` }, range: [low - room, high + room] });
      const [wins, losses, ties, all] = [above, below, both.length - above - below, both.length].map((count) => count.toLocaleString("en"));
      node.querySelector(".count").textContent =
        `Of ${all} that both answered ${up.value} is better on ${wins}, ${across.value} on ${losses}, and ${ties} are equal.`;
      return drawChart(node.querySelector(".plot"), {
        data: [{ type: "scatter", mode: "markers", x: both.map((i) => x[i]), y: both.map((i) => y[i]), text: both.map((i) => plain(queries[i])),
          marker: { color: "--c0", size: 7, opacity: 0.55 }, hovertemplate: "%{text}<br>across %{x:.3f}, upright %{y:.3f}<extra></extra>" }],
        layout: { height: 460, xaxis: axis(across), yaxis: axis(up),
          shapes: [{ type: "line", x0: low, y0: low, x1: high, y1: high, line: { color: "--dim", width: 1, dash: "dot" } }] },
      });
    };
    drawLater(node.querySelector(".plot"), show);
    for (const select of [up, across]) select.addEventListener("change", show);
  }

  // Queries: unpacked when they are opened.
  const unpack = async (script) => {
    const bytes = Uint8Array.from(atob(script.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  const bar = (value, reach, scale) => {
    if (scale) {
      const inner = el("i");
      inner.style.cssText = `left: 0; width: ${((100 * (value - scale[0])) / (scale[1] - scale[0])).toFixed(1)}%; background: var(--won)`;
      return el("div", { className: "bar whole" }, inner);
    }
    const share = (50 * value) / reach;
    const inner = el("i");
    inner.style.cssText = `${share >= 0 ? "left" : "right"}: 50%; width: ${Math.abs(share).toFixed(1)}%; background: var(${share >= 0 ? "--won" : "--lost"})`;
    return el("div", { className: "bar" }, inner);
  };
  // What a vote says for one of its two documents: above 0 if that is the better one.
  const gain = (vote, doc) => (vote.a === doc ? -vote.preference : vote.preference);
  const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  const outcome = (value) => el("span", { className: value > 0 ? "won" : value < 0 ? "lost" : "dim" }, `${value > 0 ? "won" : value < 0 ? "lost" : "tied"} ${signed(value)}`);

  const comparisons = (query, doc) => {
    const box = el("div", { className: "comparisons" });
    for (const [other, votes] of [...query.opponents[doc]].sort(by(([opponent]) => query.documents[opponent].rank ?? Infinity))) {
      const opponent = query.documents[other];
      const words = votes.map((vote) => {
        const [first, second] = vote.swapped ? [vote.b, vote.a] : [vote.a, vote.b];
        const seen = `saw ${query.documents[first].id} first, ${query.documents[second].id} second`;
        return el("div", {}, query.judges[vote.judge], ": ", outcome(gain(vote, doc)), " ", el("span", { className: "dim" }, seen), el("blockquote", {}, vote.reasoning));
      });
      const chips = votes.map((vote) => el("span", { className: "dim" }, ` · ${query.judges[vote.judge]} ${signed(gain(vote, doc))}`));
      const rank = opponent.rank === null ? "no rank" : `rank ${opponent.rank}`;
      const summary = el("summary", {}, outcome(mean(votes.map((vote) => gain(vote, doc)))), ` against ${opponent.id} (${rank})`, ...chips);
      box.append(el("details", {}, summary, ...words));
    }
    return box;
  };

  const chip = (grade) => el("span", { className: `grade g${grade}` }, String(grade));
  // What each judge graded, and why.
  const grades = (query, doc) => {
    const box = el("div", { className: "comparisons" });
    for (const { judge, grade, covered, missing, rationale } of query.grades[doc]) {
      const facets = [["covers", covered], ["misses", missing]].filter(([, found]) => found.length);
      box.append(el("div", { className: "graded" }, chip(grade), " ", query.judges[judge],
        ...facets.map(([word, found]) => el("div", { className: "dim" }, `${word}: ${found.join("; ")}`)), el("blockquote", {}, rationale)));
    }
    return box;
  };
  // What judges said in judgments of which no more is known.
  const said = (query, doc) => {
    const box = el("div", { className: "comparisons" });
    for (const { judge, text } of query.said[doc]) box.append(el("div", { className: "graded" }, query.judges[judge], el("blockquote", {}, text)));
    return box;
  };
  const scored = (doc, scale) => {
    if (doc.score === null) return ["not judged"];
    const figure = scale ? doc.score.toFixed(2) : signed(doc.score);
    const told = [`${figure}${doc.error === null ? "" : ` ± ${doc.error.toFixed(2)}`}`];
    if (doc.grade !== undefined) told.unshift(chip(doc.grade), " ");
    if (doc.ambiguous) told.push(el("div", { className: "lost" }, "judges split"));
    if (doc.truth_error != null) told.push(el("div", { className: "dim" }, `about people ± ${doc.truth_error.toFixed(2)}`));
    if (doc.absolute_score != null) told.push(el("div", { className: "dim" }, `absolute ${signed(doc.absolute_score)} ± ${doc.absolute_error.toFixed(2)}`));
    return told;
  };

  const table = (query) => {
    const reach = Math.max(...query.documents.map((doc) => Math.abs(doc.score ?? 0))) || 1;
    const head = el("tr", {}, ...["rank", "document", "score", "", "text"].map((name) => el("th", {}, name)));
    const body = el("tbody");
    for (const place of query.ranked) {
      const doc = query.documents[place];
      const [graded, compared, spoken] = [query.grades[place].length > 0, query.opponents[place].size > 0, query.said[place].length > 0];
      const opens = graded || compared || spoken;
      const title = `show its ${[graded && "grades", compared && "comparisons", spoken && `${query.noun}s`].filter(Boolean).join(" and ")}`;
      const id = opens ? el("button", { className: "id", title, ariaExpanded: "false" }, doc.id) : el("div", { className: "id" }, doc.id);
      const row = el("tr", {}, el("td", {}, doc.rank === null ? "–" : String(doc.rank)), el("td", {}, id), el("td", { className: "n" }, ...scored(doc, query.scale)),
        el("td", { className: "bars" }, doc.score === null ? null : bar(doc.score, reach, query.scale)), el("td", { className: "words" }, doc.text));
      body.append(row);
      if (!opens) continue;
      let below = null;
      id.addEventListener("click", () => {
        below = below || el("tr", {}, el("td", { colSpan: 5 }, graded ? grades(query, place) : null, compared ? comparisons(query, place) : null, spoken ? said(query, place) : null));
        const open = !below.isConnected;
        open ? row.after(below) : below.remove();
        id.ariaExpanded = String(open);
      });
    }
    return el("div", { className: "ranked" }, el("div", { className: "wide" }, el("table", { className: "ranking" }, el("thead", {}, head), body)));
  };

  const matrix = (query, order) => {
    const ids = order.map((place) => query.documents[place].id);
    const cell = (row, column) => query.opponents[row].get(column);
    const told = (row, column) => {
      const votes = cell(row, column);
      return votes ? `${plain(query.documents[row].id)} against ${plain(query.documents[column].id)}: ${signed(mean(votes.map((vote) => gain(vote, row))))}, ${votes.length} comparisons` : "";
    };
    const ticks = { tickvals: ids.length > 40 ? [] : ids.map((_, i) => i), ticktext: ids.map((id) => plain(short(id, 18))), showgrid: false, zeroline: false };
    return {
      data: [{ type: "heatmap", zmin: -1, zmax: 1, colorscale: [[0, "--down"], [0.5, "--mid"], [1, "--up"]], showscale: false, xgap: 1, ygap: 1, hoverongaps: false,
        z: order.map((row) => order.map((column) => (cell(row, column) ? mean(cell(row, column).map((vote) => gain(vote, row))) : null))),
        text: order.map((row) => order.map((column) => told(row, column))), hovertemplate: "%{text}<extra></extra>" }],
      layout: { height: 420, xaxis: { ...ticks, tickangle: -50 }, yaxis: { ...ticks, range: [ids.length - 0.5, -0.5] } },
    };
  };

  // Grades of each judge, by document: the lower median where it was asked several times.
  const sheet = (query) => {
    const shown = query.ranked.filter((place) => query.grades[place].length);
    const given = (place, judge) => query.grades[place].filter((one) => one.judge === judge).map((one) => one.grade).sort();
    const z = shown.map((place) => query.judges.map((_, judge) => given(place, judge)).map((found) => (found.length ? found[(found.length - 1) >> 1] : null)));
    const told = shown.map((place) => query.judges.map((name, judge) => `${plain(query.documents[place].id)}<br>${plain(name)}: ${given(place, judge).join(", ")}`));
    const ticks = (names) => ({ tickvals: names.map((_, i) => i), ticktext: names.map((name) => plain(short(name, 18))), showgrid: false, zeroline: false });
    const [many, wide] = [shown.length > 40, query.judges.length > 12];
    return {
      data: [{ type: "heatmap", z, text: told, zmin: 0, zmax: 3, colorscale: [[0, "--g0"], [1 / 3, "--g1"], [2 / 3, "--g2"], [1, "--g3"]], showscale: true, xgap: 1, ygap: many ? 0 : 1,
        colorbar: { thickness: 10, outlinewidth: 0, tickvals: [0, 1, 2, 3] }, hoverongaps: false, hovertemplate: "%{text}<extra></extra>" }],
      layout: { height: Math.min(640, 130 + 20 * shown.length), xaxis: { ...ticks(query.judges), tickangle: -40, showticklabels: !wide },
        yaxis: { ...ticks(shown.map((place) => query.documents[place].id)), showticklabels: !many, range: [shown.length - 0.5, -0.5] } },
    };
  };

  const graph = (query) => {
    const scored = query.ranked.filter((place) => query.documents[place].score !== null);
    const x = (place) => query.documents[place].score;
    const y = (place) => (query.documents[place].rank * 0.618034) % 1;
    const kinds = { kept: { x: [], y: [] }, upset: { x: [], y: [] } };
    const middle = { x: [], y: [], text: [] };
    for (const place of scored) {
      for (const [other, votes] of query.opponents[place]) {
        if (other <= place || query.documents[other].score === null) continue;
        const value = mean(votes.map((vote) => gain(vote, place)));
        const kind = value * (x(place) - x(other)) < 0 ? kinds.upset : kinds.kept;
        kind.x.push(x(place), x(other), null);
        kind.y.push(y(place), y(other), null);
        middle.x.push((x(place) + x(other)) / 2);
        middle.y.push((y(place) + y(other)) / 2);
        middle.text.push(`${plain(query.documents[place].id)} against ${plain(query.documents[other].id)}: ${signed(value)}`);
      }
    }
    const line = (kind, name, width) => ({ type: "scatter", mode: "lines", ...kind, line: { color: name, width }, hoverinfo: "skip" });
    const text = scored.map((place) => plain(short(query.documents[place].id, 18)));
    const told = scored.map((place) => `${plain(query.documents[place].id)}: ${signed(x(place))} ± ${query.documents[place].error.toFixed(2)}, ${query.documents[place].votes} comparisons`);
    return {
      data: [line(kinds.kept, "--edge", 1), line(kinds.upset, "--lost", 1.2),
        { type: "scatter", mode: "markers", ...middle, marker: { color: "--dim", size: 9, opacity: 0 }, hovertemplate: "%{text}<extra></extra>" },
        { type: "scatter", mode: scored.length > 30 ? "markers" : "markers+text", x: scored.map(x), y: scored.map(y), text, textposition: "top center", textfont: { size: 10 },
          customdata: told, hovertemplate: "%{customdata}<extra></extra>", marker: { color: "--c0", size: 10 }, cliponaxis: false }],
      layout: { height: 420, xaxis: { title: { text: `score, in ${query.unit}` } }, yaxis: { visible: false, range: [-0.1, 1.12] } },
    };
  };

  const pictured = (title, caption, figure) => {
    const plot = el("div", { className: "plot" });
    plot.style.minHeight = `${figure.layout.height}px`;
    drawLater(plot, () => drawChart(plot, figure));
    return el("figure", { className: "chart" }, el("h3", {}, title), plot, el("figcaption", {}, caption));
  };
  const unfold = async (details) => {
    const { unit, low, high, elsewhere } = details.parentNode.dataset;
    const scale = high === undefined ? null : [Number(low), Number(high)];
    const held = async (name) => {
      const script = details.querySelector(`script.${name}`);
      return script ? unpack(script) : null;
    };
    const [rows, votes, graded, spoken] = [await held("documents"), await held("votes"), await held("grades"), await held("said")];
    const documents = rows.map(([id, text, score, error, rank, votes, more]) => ({ id, text, score, error, rank, votes, ...more }));
    const judges = [...(graded ? graded.judges : []), ...(votes ? votes.judges : []), ...(spoken ? spoken.judges : [])];
    const query = { unit, scale, noun: spoken ? spoken.noun : "", said: documents.map(() => []), documents, judges, opponents: documents.map(() => new Map()), grades: documents.map(() => []) };
    query.ranked = documents.map((_, i) => i).sort(by((i) => documents[i].rank ?? Infinity));
    if (graded) for (const [doc, judge, grade, covered, missing, rationale] of graded.grades) query.grades[doc].push({ judge, grade, covered, missing, rationale });
    if (spoken) {
      const first = judges.length - spoken.judges.length;
      for (const [docs, judge, text] of spoken.said) for (const doc of docs) query.said[doc].push({ judge: first + judge, text });
    }
    if (votes) {
      const first = graded ? graded.judges.length : 0;
      for (const [a, b, judge, preference, swapped, reasoning] of votes.votes) {
        const vote = { a, b, judge: first + judge, preference, swapped, reasoning };
        for (const [one, other] of [[a, b], [b, a]]) query.opponents[one].set(other, [...(query.opponents[one].get(other) || []), vote]);
      }
    }
    details.append(table(query));
    if (!votes && !graded && !spoken) details.append(el("p", { className: "dim" }, elsewhere));
    if (scale && !votes && query.grades.some((given) => given.length)) {
      details.append(el("div", { className: "pair" },
        pictured("Grades by judge", "Documents by rank, and what each judge gave them. Rows of many colours are documents on which the judges are split.", sheet(query))));
    }
    if (query.opponents.some((others) => others.size)) details.append(el("div", { className: "pair" },
      pictured("Preferences, in input order", "The panel's mean preference for the row's document over the column's: blue where the row won, orange where it lost, blank where they were not compared.", matrix(query, documents.map((_, i) => i))),
      pictured("Preferences, best first", "The same, best document first: blue above the diagonal and orange below it is a panel that agrees with its own ranking.", matrix(query, query.ranked)),
      pictured("Comparisons", "Documents by score; a line is a pair that was compared, in orange where the panel's preference runs against the scores. Heights only keep the documents apart.", graph(query))));
    for (const part of all(".ranked, figure.chart", details)) offerToTake(part);
  };
  const opened = new WeakSet();
  for (const details of all(".queries > details")) {
    details.addEventListener("toggle", () => {
      if (!details.open || opened.has(details)) return;
      opened.add(details);
      unfold(details);
    });
  }
  for (const search of all(".queries > input")) {
    search.addEventListener("input", () => {
      const wanted = search.value.toLowerCase();
      for (const details of all(":scope > details", search.parentNode)) details.hidden = !details.firstElementChild.textContent.toLowerCase().includes(wanted);
    });
  }
  const follow = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.localName === "details") {
      target.hidden = false;
      target.open = true;
    }
  };
  addEventListener("hashchange", follow);
  follow();
})();
