"use strict";
// Shows one picture of a chart, unpacks what is opened, and finds a query by its words.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Charts whose choice has the same name change together.
  const selects = all("select[data-choice]");
  const show = (figure) => {
    const key = all("select", figure).map((select) => select.value).join("\n");
    for (const picture of all(".picture[data-key]", figure)) {
      picture.hidden = picture.dataset.key !== key;
      picture.firstElementChild.hidden = true; // its heading, which the choice says
    }
  };
  const choose = ({ target }) => {
    for (const select of selects) {
      const has = select.dataset.choice === target.dataset.choice && [...select.options].some((option) => option.value === target.value);
      if (has) select.value = target.value;
      if (has) show(select.closest("figure"));
    }
  };
  for (const select of selects) {
    select.parentElement.hidden = false;
    select.addEventListener("change", choose);
  }
  for (const figure of all("figure.chart")) if (all("select", figure).length) show(figure);

  // Folded parts are packed: their HTML was escaped where it was made.
  const unpack = async (script) => {
    const bytes = Uint8Array.from(atob(script.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const inside = document.createElement("div");
    inside.innerHTML = await new Response(stream).text();
    script.replaceWith(inside);
  };
  for (const details of all(".foldings > details")) {
    details.addEventListener("toggle", () => all(":scope > script", details).forEach(unpack));
  }
  for (const search of all(".foldings > input")) {
    search.hidden = false;
    search.addEventListener("input", () => {
      const wanted = search.value.toLowerCase();
      for (const details of all(":scope > details", search.parentNode)) details.hidden = !details.firstElementChild.textContent.toLowerCase().includes(wanted);
    });
  }
  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  addEventListener("hashchange", follow);
  follow();
})();
