// What is read of a page in the browser. Each function returns plain data; none leaves the page
// changed but `unfold` and `shorten`. The checks are in checks.py.
(() => {
  const seen = (element) =>
    element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const words = (text) => (text || "").replace(/\s+/g, " ").trim();
  const named = (element) => {
    const own = words(element.textContent).slice(0, 40);
    const id = element.id ? `#${element.id}` : "";
    return `<${element.localName}${id}>${own ? ` "${own}"` : ""}`;
  };
  const all = (selector) => [...document.querySelectorAll(selector)];
  // Elements with a text of their own that can be seen.
  const texts = () =>
    all("body *").filter(
      (one) =>
        !["style", "script", "title", "desc"].includes(one.localName) &&
        seen(one) &&
        [...one.childNodes].some((child) => child.nodeType === 3 && words(child.data)),
    );
  // How many pixels of the screen a unit of the element's own length takes.
  const scale = (element) => {
    if (!(element instanceof SVGGraphicsElement)) return 1;
    const matrix = element.getScreenCTM();
    return Math.sqrt(Math.abs(matrix.a * matrix.d - matrix.b * matrix.c));
  };
  // The colour behind an element: that of the next one around it that has one, else white.
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/^rgba\(.*, 0\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  // A colour of the browser's own in the theme that the page accepts.
  const system = (name) => {
    const probe = document.body.appendChild(document.createElement("div"));
    probe.style.backgroundColor = name;
    const colour = getComputedStyle(probe).backgroundColor;
    probe.remove();
    return colour;
  };
  // The name that a screen reader says, of an element that names itself.
  const label = (element) => {
    const ids = (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
    const titled = element.querySelector(":scope > title");
    return words(
      ids.map((id) => document.getElementById(id)?.textContent || "").join(" ") ||
        element.getAttribute("aria-label") ||
        element.getAttribute("alt") ||
        titled?.textContent,
    );
  };
  return {
    size: () => [document.documentElement.clientWidth, document.documentElement.scrollHeight],

    // By how much the document is wider than the window, and what reaches beyond its right edge and
    // is in no part that scrolls by itself.
    tooWide: () => {
      const { scrollWidth: wide, clientWidth: edge } = document.documentElement;
      const scrolls = (one) =>
        one && (/auto|scroll|hidden|clip/.test(getComputedStyle(one).overflowX) ||
          scrolls(one.parentElement));
      const beyond = all("body *")
        .filter((one) => seen(one) && one.getBoundingClientRect().right > edge + 0.5)
        .filter((one) => !scrolls(one.parentElement));
      return wide <= edge ? [] : [`${wide} px wide in a window of ${edge} px`, ...beyond.map(named)];
    },

    unfold: () => all("details").forEach((one) => (one.open = true)),

    // Leave this many rows of each table.
    shorten: (most) =>
      all("tbody").forEach((one) => [...one.rows].slice(most).forEach((row) => row.remove())),

    // Whatever could run or load something.
    active: () => {
      // A picture of the tab that is data of the page's own keeps browsers from asking for one.
      const elements = all(
        "script, iframe, frame, object, embed, base, form, audio, video, source, " +
          'link:not([rel="icon"][href^="data:"]), ' +
          'meta[http-equiv="refresh" i], animate, set',
      ).map(named);
      const attributes = all("*").flatMap((one) =>
        [...one.attributes]
          .filter(
            ({ name, value }) =>
              /^on/i.test(name) ||
              /^\s*(javascript|vbscript):/i.test(value) ||
              (/^(src|srcset|data|poster|background)$/i.test(name) && !/^data:/i.test(value)) ||
              (/href$/i.test(name) && one.localName !== "a" && !/^(#|data:)/.test(value)),
          )
          .map(({ name }) => `${name} of ${named(one)}`),
      );
      return [...elements, ...attributes];
    },

    // Texts of fewer pixels.
    tooSmall: (least) =>
      texts()
        .map((one) => [parseFloat(getComputedStyle(one).fontSize) * scale(one), named(one)])
        .filter(([size]) => size < least)
        .map(([size, name]) => `${size.toFixed(1)} px: ${name}`),

    colours: () => {
      const body = getComputedStyle(document.body);
      return {
        background: behind(document.body),
        text: body.color,
        // What the browser itself draws, such as scroll bars and empty windows.
        canvas: system("Canvas"),
        pictures: [
          ...new Set(
            all("svg text").filter(seen).map((one) => getComputedStyle(one).fill),
          ),
        ],
      };
    },

    // The texts in pictures with their colours, what is behind the picture, and where they are. A
    // text that is drawn twice, once as its own outline, has the same place.
    pictureTexts: () =>
      all("svg").flatMap((picture, number) =>
        [...picture.querySelectorAll("text")].filter(seen).map((one) => {
          const style = getComputedStyle(one);
          const box = one.getBoundingClientRect();
          return {
            picture: number,
            name: named(one),
            text: one.textContent,
            fill: style.fill,
            opacity: parseFloat(style.opacity) * parseFloat(style.fillOpacity),
            behind: behind(picture),
            box: [box.left, box.top, box.right, box.bottom],
          };
        }),
      ),

    // A page that does not begin with its only h1, levels that are left out, empty headings.
    headings: () => {
      const read = all("h1, h2, h3, h4, h5, h6").map((one) => ({
        level: Number(one.localName[1]),
        name: `${one.localName} "${words(one.textContent)}"`,
      }));
      const first = read.filter((one) => one.level === 1).length;
      return [
        ...read.filter((one) => one.name.endsWith('""')).map((one) => `an empty ${one.name}`),
        ...(first === 1 && read[0].level === 1 ? [] : [`${first} h1, first ${read[0]?.name}`]),
        ...read
          .filter((one, at) => at && one.level > read[at - 1].level + 1)
          .map((one) => `a level is left out before ${one.name}`),
      ];
    },

    // Tables without a caption or a header, headers without a scope, rows of another width.
    tables: () =>
      all("table").flatMap((one) => {
        const heads = [...one.querySelectorAll("th")];
        const widths = [...one.rows].map((row) =>
          [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0),
        );
        return [
          ...(words(one.caption?.textContent) ? [] : ["no caption"]),
          ...(heads.length ? [] : ["no header"]),
          ...heads
            .filter((th) => !/^(row|col|rowgroup|colgroup)$/.test(th.getAttribute("scope") || ""))
            .map((th) => `no scope: ${named(th)}`),
          ...widths.flatMap((width, at) =>
            width === widths[0] ? [] : [`row ${at + 1} has another width`],
          ),
        ].map((problem) => `${named(one)}: ${problem}`);
      }),

    // Pictures that are neither named nor left out on purpose.
    nameless: () =>
      all("svg, img, [role=img], canvas")
        .filter((one) => !one.parentElement.closest("svg, [role=img]"))
        .filter((one) => !one.closest('[aria-hidden="true"]'))
        .filter(
          (one) =>
            !label(one) || (one.localName === "svg" && one.getAttribute("role") !== "img"),
        )
        .map((one) => one.outerHTML.slice(0, 80)),

    // Links that lead nowhere, and ids that are not unique.
    broken: () => {
      const ids = all("[id]").map((one) => one.id);
      const twice = [...new Set(ids.filter((id, at) => ids.indexOf(id) !== at))];
      const lost = all('a[href^="#"], use[href^="#"]')
        .map((one) => one.getAttribute("href").slice(1))
        .filter((id) => id && !ids.includes(decodeURIComponent(id)));
      const unnamed = all("[aria-labelledby], [aria-describedby]")
        .flatMap((one) => [
          ...(one.getAttribute("aria-labelledby") || "").split(/\s+/),
          ...(one.getAttribute("aria-describedby") || "").split(/\s+/),
        ])
        .filter((id) => id && !ids.includes(id));
      return [
        ...twice.map((id) => `the id ${id} twice`),
        ...lost.map((id) => `nothing is at #${id}`),
        ...unnamed.map((id) => `no element ${id} to be named by`),
      ];
    },

    // What is folded: the texts of its innermost elements, and which of them cannot be seen. What
    // is left out of this medium with its summary is none of it, also where that is within another.
    folded: () =>
      all("details")
        .filter((one) => seen(one) && one.getClientRects().length > 0)
        .flatMap((one) =>
          [...one.querySelectorAll("th, td, caption, p, li, pre, dd, dt")]
            .filter((inner) => inner.closest("details") === one)
            .map((inner) => [
              words(inner.textContent),
              seen(inner) && inner.getClientRects().length > 0,
            ]),
        ),

    // The text as a reader sees it, and that of tooltips and names.
    text: () => [
      document.body.innerText,
      ...all("svg text").map((one) => one.textContent),
      ...all("[title]").map((one) => one.title),
    ].join("\n"),

    count: (selector) => all(selector).length,
  };
})()
