"use strict";
// Draws figures as SVG: bars, points, lines and cells, from data and layout in the words of Plotly.
// Colours are names of the page's own, so that they follow its scheme. Texts become text nodes.
const drawChart = (() => {
  const svg = (name, props, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(props || {})) if (value != null) node.setAttribute(key, value);
    node.append(...children.filter((child) => child != null));
    return node;
  };
  const div = (className, ...children) => {
    const node = document.createElement("div");
    node.className = className;
    node.append(...children);
    return node;
  };
  const paint = (name) => (name && name.startsWith("--") ? `var(${name})` : name);
  const linesOf = (text) => String(text ?? "").split("<br>").map((line) => line.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&"));
  const pen = document.createElement("canvas").getContext("2d");
  const widthOf = (text) => {
    pen.font = "12px system-ui, sans-serif";
    return Math.max(...linesOf(text).map((line) => pen.measureText(line).width));
  };
  const label = (text, x, y, props) =>
    svg("text", { x, y, ...props }, ...linesOf(text).map((line, i) => svg("tspan", { x, dy: i ? "1.2em" : 0 }, line)));
  const told = (value, form) => {
    if (typeof value !== "number" || !form) return String(value ?? "");
    const digits = /\.(\d+)/.exec(form);
    const scaled = form.endsWith("%") ? 100 * value : value;
    const places = digits ? { minimumFractionDigits: +digits[1], maximumFractionDigits: +digits[1] } : { maximumFractionDigits: 6 };
    return scaled.toLocaleString("en", { useGrouping: form.includes(","), ...places }).replace("-", "−") + (form.endsWith("%") ? "%" : "");
  };
  const at = (values, i) => (Array.isArray(values) ? values[i] : values);
  const known = (value) => typeof value === "number" && Number.isFinite(value);

  // The lowest and the highest value that the traces of an axis show.
  const reachOf = (axis, letter, traces) => {
    const found = [];
    let room = 0;
    for (const trace of traces) {
      if (trace.type === "heatmap") {
        found.push(-0.5, (letter === "x" ? trace.z[0] || [] : trace.z).length - 0.5);
        continue;
      }
      const values = trace[letter];
      if (trace.type === "bar") {
        const along = (trace.orientation === "h") === (letter === "x");
        if (along) found.push(0, ...values.map((value, i) => (trace.base ? trace.base[i] : 0) + 1.04 * value));
        else values.forEach((value, i) => found.push(value - (at(trace.width, i) ?? 1) / 2, value + (at(trace.width, i) ?? 1) / 2));
        continue;
      }
      const error = trace[`error_${letter}`];
      values.forEach((value, i) => known(value) && found.push(value - (error?.arrayminus[i] || 0), value + (error?.array[i] || 0)));
      if (trace.mode.includes("markers")) room = 0.05;
    }
    const scaled = found.filter((value) => known(value) && (axis.type !== "log" || value > 0)).map((value) => (axis.type === "log" ? Math.log10(value) : value));
    let low = scaled.reduce((a, b) => Math.min(a, b), Infinity), high = scaled.reduce((a, b) => Math.max(a, b), -Infinity);
    if (low > high) [low, high] = [0, 1];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    const pad = room * (high - low);
    if (axis.rangemode === "tozero") return [low < 0 ? low - pad : 0, Math.max(0, high) + pad];
    return [low - pad, high + pad];
  };
  // Where an axis has its marks, and what they say: as many as there is room for.
  const marksOf = (axis, [low, high], room) => {
    const inside = (value) => value >= Math.min(low, high) - 1e-9 && value <= Math.max(low, high) + 1e-9;
    const log = axis.type === "log";
    if (axis.tickvals) return axis.tickvals.map((value, i) => [log ? Math.log10(value) : value, axis.ticktext[i]]).filter(([value]) => inside(value));
    if (log) {
      const powers = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, i) => Math.floor(low) + i);
      const digits = high - low > 2.5 ? [1] : [1, 2, 5];
      return powers.flatMap((power) => digits.map((digit) => digit * 10 ** power)).map((value) => [Math.log10(value), told(value, ",")]).filter(([value]) => inside(value));
    }
    const rough = Math.abs(high - low) / Math.max(1, axis.nticks ? axis.nticks - 1 : room);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((digit) => digit * power >= rough) * power;
    const form = axis.tickformat || `,.${Math.max(0, -Math.floor(Math.log10(step) + 1e-9))}f`;
    const first = Math.ceil(Math.min(low, high) / step - 1e-9);
    const count = Math.floor(Math.max(low, high) / step + 1e-9) - first + 1;
    return Array.from({ length: count }, (_, i) => (first + i) * step).map((value) => [value, told(value, form)]);
  };

  const SHAPES = {
    square: "M-.9-.9h1.8v1.8h-1.8z", diamond: "M0-1.2 1.2 0 0 1.2-1.2 0z", "triangle-up": "M0-1.1 1.1.9H-1.1z", "triangle-down": "M0 1.1 1.1-.9H-1.1z",
    cross: "M-.4-1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z", x: "M-.9-.4-.4-.9 0-.5.4-.9.9-.4.5 0 .9.4.4.9 0 .5-.4.9-.9.4-.5 0z",
    star: "M0-1.3.3-.4h1L.5.2.8 1.1 0 .5-.8 1.1-.5.2-1.3-.4h1z", circle: "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0",
  };
  const mark = (marker, i, x, y) => {
    const [shape, open] = (at(marker.symbol, i) || "circle").split(/-(?=open)/);
    const [colour, size] = [paint(at(marker.color, i)), (marker.size || 6) / 2];
    const style = open ? `fill: none; stroke: ${colour}; stroke-width: ${1.5 / size}` : `fill: ${colour}`;
    return svg("path", { class: "point", d: SHAPES[shape], transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size})`, style, opacity: marker.opacity });
  };
  // A colour between those of a scale, at a share from 0 to 1.
  const mixed = (scale, share) => {
    const next = Math.max(1, scale.findIndex(([end]) => share <= end));
    const [[start, one], [end, other]] = [scale[next - 1], scale[next]];
    return `color-mix(in srgb, ${paint(other)} ${Math.round((100 * (share - start)) / (end - start))}%, ${paint(one)})`;
  };
  const shareOf = ({ zmin, zmax, zmid }, value) => {
    const share = zmid === undefined ? (value - zmin) / (zmax - zmin) : value < zmid ? (0.5 * (value - zmin)) / (zmid - zmin) : 0.5 + (0.5 * (value - zmid)) / (zmax - zmid);
    return Math.min(1, Math.max(0, share));
  };
  const said = (trace, i, values) => {
    const all = { ...values, text: at(trace.text, i), customdata: at(trace.customdata, i), ...values };
    const [body, extra] = (trace.hovertemplate || "").split("<extra>");
    const name = extra === undefined && trace.name ? `<br>${trace.name}` : "";
    return body.replace(/%\{(\w+)(?::([^}]+))?\}/g, (_, key, form) => told(all[key], form)) + name;
  };

  // Each draws one trace into a group, and returns what can be pointed at: [left, top, right, bottom, text].
  const KINDS = {
    bar(group, trace, sx, sy, names) {
      const flat = trace.orientation === "h";
      return trace.x.map((x, i) => {
        const [place, value, base] = [flat ? trace.y[i] : x, flat ? x : trace.y[i], trace.base ? trace.base[i] : 0];
        const half = (at(trace.width, i) ?? trace.thick) / 2;
        const [across, along] = flat ? [sy, sx] : [sx, sy];
        const [a, b] = [across(place - half), across(place + half)].sort((one, other) => one - other);
        const [c, d] = [along(base), along(base + value)].sort((one, other) => one - other);
        const [left, top, right, bottom] = flat ? [c, a, d, b] : [a, c, b, d];
        group.append(svg("rect", { x: left.toFixed(2), y: top.toFixed(2), width: (right - left).toFixed(2), height: (bottom - top).toFixed(2), style: `fill: ${paint(at(trace.marker.color, i))}` }));
        const text = trace.textposition && trace.textposition !== "none" && trace.text && trace.text[i];
        if (text) {
          const inside = trace.textposition === "inside";
          const name = inside ? `inside on${at(trace.marker.color, i)}` : null;
          group.append(label(text, (left + right) / 2, inside ? (top + bottom) / 2 + 4 : top - 4, { "text-anchor": "middle", class: name }));
        }
        return [left, flat ? top : sy.top, right, flat ? bottom : sy.bottom, said(trace, i, { x: names.x(x), y: names.y(trace.y[i]) })];
      });
    },
    scatter(group, trace, sx, sy, names) {
      const points = trace.x.map((x, i) => (known(x) && known(trace.y[i]) ? [sx(x), sy(trace.y[i])] : null));
      if (trace.mode.includes("lines")) {
        const path = points.map((point, i) => (point ? `${i && points[i - 1] ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}` : "")).join("");
        const { color, width = 2 } = trace.line || {};
        group.append(svg("path", { d: path, style: `fill: none; stroke: ${paint(color) || "none"}; stroke-width: ${width}` }));
      }
      points.forEach((point, i) => {
        if (!point) return;
        for (const [letter, scale, place] of [["x", sx, 0], ["y", sy, 1]]) {
          const error = trace[`error_${letter}`];
          if (!error || !(error.array[i] || error.arrayminus[i])) continue;
          const ends = [scale(trace[letter][i] - (error.arrayminus[i] || 0)), scale(trace[letter][i] + (error.array[i] || 0))];
          const [a, b] = ends.map((end) => (place ? [point[0], end] : [end, point[1]]));
          group.append(svg("path", { d: `M${a.map((n) => n.toFixed(1))}L${b.map((n) => n.toFixed(1))}`, style: `stroke: ${paint(error.color || at(trace.marker.color, i))}; stroke-width: 1.5` }));
        }
        if (trace.mode.includes("markers")) group.append(mark(trace.marker, i, ...point));
        if (trace.mode.includes("text")) group.append(label(at(trace.text, i), point[0], point[1] - 9, { "text-anchor": "middle", "font-size": trace.textfont?.size }));
      });
      return points.map((point, i) => point && [...point, ...point, said(trace, i, { x: names.x(trace.x[i]), y: names.y(trace.y[i]) })]).filter(Boolean);
    },
    heatmap(group, trace, sx, sy, names) {
      const found = [];
      group.classList.add("cells");
      trace.z.forEach((row, i) => row.forEach((value, j) => {
        if (!known(value)) return;
        const [left, right] = [sx(j - 0.5), sx(j + 0.5)], [top, bottom] = [sy(i - 0.5), sy(i + 0.5)];
        const gap = Math.min(1, (bottom - top) / 4) * (trace.ygap ?? 1);
        group.append(svg("rect", { class: "cell", x: left.toFixed(2), y: top.toFixed(2), width: Math.max(0.5, right - left - 1).toFixed(2), height: Math.max(0.5, bottom - top - gap).toFixed(2), style: `fill: ${mixed(trace.colorscale, shareOf(trace, value))}` }));
        if (trace.texttemplate) group.append(label(trace.text[i][j], (left + right) / 2, (top + bottom) / 2 + 4, { "text-anchor": "middle" }));
        found.push([left, top, right, bottom, said(trace, i, { x: names.x(j), y: names.y(i), z: value, text: trace.text?.[i][j], hovertext: trace.hovertext?.[i][j] })]);
      }));
      return found;
    },
  };
  const colourbar = (trace, x, top, bottom) => {
    const ticks = trace.colorbar?.tickvals || [trace.zmin, ...(trace.zmid === undefined ? [] : [trace.zmid]), trace.zmax];
    const group = svg("g", { class: "colourbar" });
    for (let i = 0; i < 40; i++) group.append(svg("rect", { x, width: 10, y: bottom - ((i + 1) / 40) * (bottom - top), height: (bottom - top) / 40 + 0.5, style: `fill: ${mixed(trace.colorscale, (i + 0.5) / 40)}` }));
    for (const tick of ticks) group.append(label(told(tick, trace.colorbar?.tickformat || ","), x + 14, bottom - shareOf(trace, tick) * (bottom - top) + 4));
    return group;
  };

  // The box with the values of what the pointer is over.
  const tip = document.body.appendChild(div("tip"));
  tip.hidden = true;
  addEventListener("scroll", () => (tip.hidden = true), { passive: true });
  const point = (root, targets, unified) => {
    const show = (event) => {
      const box = root.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const far = ([left, top, right, bottom]) => Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom));
      let best = null, least = 24;
      for (const target of targets) {
        const distance = target.shown() ? far(target) : Infinity;
        if (distance < least || (distance === 0 && least === 0)) [best, least] = [target, distance];
      }
      tip.hidden = !best;
      if (!best) return;
      const together = unified ? targets.filter((target) => target.shown() && target[0] === best[0] && target[2] === best[2]) : [best];
      tip.replaceChildren(...together.flatMap((target) => linesOf(target[4])).map((line) => div("", line)));
      const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
      tip.style.left = `${Math.max(4, Math.min(room, event.clientX + 12)) + scrollX}px`;
      tip.style.top = `${Math.max(4, event.clientY - tip.offsetHeight - 10) + scrollY}px`;
    };
    root.addEventListener("pointermove", show);
    root.addEventListener("pointerdown", show);
    root.addEventListener("pointerleave", () => (tip.hidden = true));
  };
  // A label in two lines, cut between letters, after the middle and at a gap if there is one.
  const WIDE = 24;
  const folded = (text) => {
    const letters = text.match(/&\w+;|./gsu) || [];
    const half = Math.ceil(letters.length / 2);
    const gap = letters.slice(half, half + 8).findIndex((letter) => /\W/.test(letter));
    const cut = half + Math.max(0, gap);
    return letters.length > WIDE ? `${letters.slice(0, cut).join("")}<br>${letters.slice(cut).join("")}` : text;
  };
  const SLANT = 40;
  const stacked = (traces) => {
    const heights = new Map();
    return traces.map((trace) => {
      if (trace.type !== "bar") return trace;
      const [places, values] = trace.orientation === "h" ? [trace.y, trace.x] : [trace.x, trace.y];
      const base = places.map((place) => heights.get(place) || 0);
      places.forEach((place, i) => heights.set(place, base[i] + values[i]));
      return { ...trace, base };
    });
  };
  const legendOf = (traces, groups) =>
    div("legend", ...traces.flatMap((trace, i) => {
      if (!trace.name || trace.showlegend === false) return [];
      const colour = trace.marker.color;
      const button = document.createElement("button");
      const swatch = svg("svg", { width: 14, height: 12 }, mark({ size: 9, ...trace.marker, symbol: at(trace.marker.symbol, 0), color: at(colour, 0), opacity: 1 }, 0, 7, 6));
      button.append(swatch, ` ${linesOf(trace.name).join(" ")}`);
      button.addEventListener("click", () => button.classList.toggle("off", groups[i].classList.toggle("off")));
      return [button];
    }));

  // Lays out the axes of a figure: each with its range, its marks and its place in the window.
  const axesOf = (layout, traces, width, height) => {
    const axes = new Map();
    for (const name of new Set(["xaxis", "yaxis", ...Object.keys(layout).filter((key) => /^[xy]axis/.test(key))])) {
      const [letter, axis] = [name[0], { ...layout[name] }];
      const own = traces.filter((trace) => letter === "x" || (trace.yaxis || "y") === name.replace("axis", ""));
      const range = axis.range || reachOf(axis, letter, own);
      const narrow = letter === "y" && width < 640 && axis.ticktext;
      if (narrow) axis.ticktext = axis.ticktext.map((text) => folded(String(text)));
      const room = letter === "x" ? width / 65 : height / 45;
      const marks = axis.visible === false || axis.showticklabels === false ? [] : marksOf(axis, range, Math.max(2, Math.min(10, room)));
      const wide = Math.max(0, ...marks.map(([, text]) => widthOf(text)));
      const slot = (width * 0.85) / Math.max(1, marks.length);
      const angle = letter === "y" ? 0 : axis.tickangle ?? (axis.ticktext && wide > slot && axis.type !== "log" ? -SLANT : 0);
      axes.set(name, { ...axis, name, letter, range, marks, wide, angle, told: axis.title?.text });
    }
    return axes;
  };
  const paperOf = (axes, traces, width, height) => {
    const [x, ...ups] = [...axes.values()];
    const side = (right) => Math.max(0, ...ups.filter((axis) => (axis.side === "right") === right).map((axis) => axis.wide + 8 + (axis.told ? 22 : 0)));
    const deep = x.angle ? Math.sin((-x.angle * Math.PI) / 180) * x.wide + 22 : x.marks.length ? 6 + 15 * Math.max(...x.marks.map(([, text]) => linesOf(text).length)) : 6;
    const bar = traces.some((trace) => trace.showscale) ? 56 : 0;
    const edge = deep + (x.told ? 22 : 2);
    const [top, bottom] = x.side === "top" ? [edge + 4, 8] : [14, edge];
    const lap = x.angle ? 0 : Math.min(30, (x.marks.length ? widthOf(x.marks[x.marks.length - 1][1]) : 0) / 2);
    return { left: Math.max(12, side(false)), right: width - Math.max(12, lap, side(true)) - bar, top, bottom: height - bottom, bar };
  };
  const scaleOf = (axis, paper) => {
    const [from, to] = axis.domain || [0, 1];
    const high = paper.bottom - paper.top;
    const [start, end] = axis.letter === "x" ? [paper.left, paper.right] : [paper.bottom - from * high, paper.bottom - to * high];
    const place = (value) => start + ((value - axis.range[0]) / (axis.range[1] - axis.range[0])) * (end - start);
    const scale = (value) => place(axis.type === "log" ? Math.log10(value) : value);
    return Object.assign(scale, { place, top: end, bottom: start });
  };
  const ruled = (axis, scale, paper) => {
    const [group, across] = [svg("g", { class: "axis" }), axis.letter === "x"];
    const line = (value, name) => {
      const at = scale.place(value).toFixed(1);
      group.append(svg("path", { class: name, d: across ? `M${at} ${paper.top}V${paper.bottom}` : `M${paper.left} ${at}H${paper.right}` }));
    };
    if (axis.visible === false) return group;
    const inside = Math.min(...axis.range) <= 0 && Math.max(...axis.range) >= 0;
    if (axis.showgrid !== false) axis.marks.forEach(([value]) => line(value, "grid"));
    if (axis.zeroline !== false && inside && axis.type !== "log") line(0, "zero");
    for (const [value, text] of axis.marks) {
      const [place, lines] = [scale.place(value), linesOf(text).length];
      const name = `${axis.name.replace("axis", "")}tick`;
      if (!across) {
        const right = axis.side === "right";
        group.append(svg("g", { class: name }, label(text, right ? paper.right + 6 : paper.left - 6, place + 4 - 7 * (lines - 1), { "text-anchor": right ? "start" : "end" })));
        continue;
      }
      const y = axis.side === "top" ? paper.top - 8 - 14 * (lines - 1) : paper.bottom + 16;
      const turned = axis.angle ? { "text-anchor": "end", transform: `rotate(${axis.angle} ${place} ${y - 4})` } : { "text-anchor": "middle" };
      group.append(svg("g", { class: name }, label(text, place, y, turned)));
    }
    if (axis.told && across) group.append(label(axis.told, (paper.left + paper.right) / 2, paper.height - 4, { class: "xtitle", "text-anchor": "middle" }));
    if (axis.told && !across) {
      const y = (scale.top + scale.bottom) / 2;
      group.append(label(axis.told, 12, y, { class: "ytitle", "text-anchor": "middle", transform: `rotate(-90 12 ${y})` }));
    }
    return group;
  };

  const figures = new WeakMap();
  const sizes = new ResizeObserver((seen) => {
    for (const { target } of seen) if (target.clientWidth && figures.get(target).width !== target.clientWidth) draw(target, figures.get(target).figure);
  });
  const draw = (node, figure, wide = node.clientWidth) => {
    const { layout } = figure;
    const width = Math.max(200, wide);
    const folds = width < 640 && (layout.yaxis?.ticktext || []).some((name) => name.length > WIDE);
    const height = layout.height + (folds ? 12 * layout.yaxis.ticktext.length : 0);
    const thick = 1 - (layout.bargap ?? 0.2);
    const filled = figure.data.map((trace) => ({ mode: "markers", thick, ...trace, marker: { color: trace.line?.color, ...trace.marker } }));
    const traces = layout.barmode === "stack" ? stacked(filled) : filled;
    const axes = axesOf(layout, traces, width, height);
    const paper = { ...paperOf(axes, traces, width, height), height };
    const scales = new Map([...axes].map(([name, axis]) => [name, scaleOf(axis, paper)]));
    const namesOf = (axis) => (value) => {
      const place = axis.ticktext ? axis.tickvals.indexOf(value) : -1;
      return place < 0 ? value : String(axis.ticktext[place]).replace("<br>", " ");
    };
    const root = svg("svg", { class: "drawn", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
    for (const [name, axis] of axes) root.append(ruled(axis, scales.get(name), paper));
    const targets = [];
    const groups = traces.map((trace) => {
      const up = (trace.yaxis || "y").replace("y", "yaxis");
      const group = root.appendChild(svg("g", { class: `trace ${trace.type}` }));
      const names = { x: namesOf(axes.get("xaxis")), y: namesOf(axes.get(up)) };
      const found = KINDS[trace.type](group, trace, scales.get("xaxis"), scales.get(up), names);
      targets.push(...found.map((target) => Object.assign(target, { shown: () => !group.classList.contains("off") })));
      if (trace.showscale) root.append(colourbar(trace, paper.right + 12, paper.top, paper.bottom));
      return group;
    });
    for (const { x0, x1, y0, y1, yref, line } of layout.shapes || []) {
      const [sx, sy] = [scales.get("xaxis"), yref === "paper" ? (share) => paper.bottom - share * (paper.bottom - paper.top) : scales.get("yaxis")];
      root.append(svg("path", { d: `M${sx(x0)} ${sy(y0)}L${sx(x1)} ${sy(y1)}`, style: `stroke: ${paint(line.color)}; stroke-width: ${line.width}`, "stroke-dasharray": line.dash && "2 3" }));
    }
    for (const { x, y, text } of layout.annotations || []) root.append(label(text, paper.left + x * (paper.right - paper.left), paper.bottom - y * (paper.bottom - paper.top) + 12));
    point(root, targets, layout.hovermode === "x unified");
    const legend = layout.showlegend ? [legendOf(traces, groups)] : [];
    const same = figures.get(node)?.figure === figure;
    const off = same ? [...node.querySelectorAll(".legend button")].map((button) => button.classList.contains("off")) : [];
    for (const button of legend[0]?.children || []) if (off.shift()) button.click();
    node.replaceChildren(...(layout.legend?.y < 0 ? [root, ...legend] : [...legend, root]));
    figures.set(node, { figure, width: node.clientWidth });
    sizes.observe(node);
  };
  // All that is drawn, anew: for a sheet of paper some pixels wide, or for the window.
  draw.anew = (wide) => document.querySelectorAll(".plot").forEach((node) => figures.has(node) && draw(node, figures.get(node).figure, wide));
  return draw;
})();
