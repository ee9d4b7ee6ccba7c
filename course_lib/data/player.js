// A picture under controls: buttons, sliders, steps that play. Frames that are there are shown at once; others are asked
// for, the one under the hand first. course_lib/plots/sliders.py puts this into a notebook's widget and into pages.
//
// root: an empty element. data: {controls, start, frames, look}. ask(key): asks whoever draws for one frame, who calls
// player.got(key, frame), or player.begun() where it was asked for ahead and only a step of it is drawn; absent on a page,
// which has all its frames. A key is the places of the values: "2,0". A frame is drawn twice, for light pages (src) and for
// dark ones (dark), which a style sheet tells by --course-night on the body.
function coursePlayer(root, data, ask) {
  const make = (tag, looks, text) => {
    const made = document.createElement(tag);
    if (looks) made.className = looks;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const frames = new Map(Object.entries(data.frames)), images = new Map();
  const at = [...data.start], MOST_KEPT = 400, MOST_AHEAD = 48, ALL = 300, BEAT = 900, READABLE = 720;
  let touched = -1, asked = null, shown = null, playing = null, seen = !ask, wide = 0, high = 0, lines = 0;
  const player = {place: at, ready: false, lastShown: null};
  const keyOf = (places) => places.join(",");
  const isNight = () => getComputedStyle(document.body).getPropertyValue("--course-night").trim() === "1";
  let night = isNight();
  const has = (key) => {
    const frame = frames.get(key);
    return Boolean(frame) && Boolean(!ask || frame[night ? "dark" : "src"] || !(frame.src || frame.dark));
  };

  root.classList.add("course-player");
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", data.label || "A picture with controls");
  const bar = make("div", "course-controls"), box = make("div", "course-picture"), said = make("output", "course-said");
  said.setAttribute("aria-live", "polite");
  const OWN = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown", " ", "Enter"];
  bar.addEventListener("keydown", (event) => {  // or JupyterLab takes them for itself
    if (OWN.includes(event.key) && !event.ctrlKey && !event.metaKey && !event.shiftKey) event.stopPropagation();
  });
  root.replaceChildren(bar, box, said);

  // Controls ----------------------------------------------------------------------------------------------------------
  const tellers = data.controls.map((control, place) => {
    const whole = make("div", "course-control course-" + control.kind), last = control.texts.length - 1;
    const id = "course-" + Math.random().toString(36).slice(2);
    whole.addEventListener("pointerenter", () => { touched = place; need(); });  // the hand comes: draw its way first
    bar.append(whole);
    const to = (value) => { at[place] = value; touched = place; moved(); };
    if (control.kind === "buttons") {
      const group = make("div", "course-group"), name = make("span", "course-name", control.label);
      name.id = id;
      group.setAttribute("role", "radiogroup");
      group.setAttribute("aria-labelledby", id);
      const radios = control.texts.map((text, value) => {
        const label = make("label"), radio = make("input");
        Object.assign(radio, {type: "radio", name: id, value: String(value)});
        radio.addEventListener("change", () => { stop(); to(value); });
        label.append(radio, make("span", "", text));
        group.append(label);
        return radio;
      });
      whole.append(name, group);
      return () => radios.forEach((radio, value) => { radio.checked = value === at[place]; });
    }
    const name = make("label", "course-name", control.label);
    name.htmlFor = id;
    if (control.kind === "choice") {
      const select = make("select");
      select.id = id;
      control.texts.forEach((text, value) => select.append(new Option(text, String(value))));
      select.addEventListener("change", () => { stop(); to(Number(select.value)); });
      whole.append(name, select);
      return () => { select.value = String(at[place]); };
    }
    const slider = make("input"), readout = make("output", "course-value");
    Object.assign(slider, {type: "range", id, min: "0", max: String(last), step: "1"});
    slider.disabled = last === 0;
    readout.htmlFor = id;
    readout.style.minWidth = Math.max(...control.texts.map((text) => text.length)) + "ch";
    slider.addEventListener("input", () => { stop(); to(Number(slider.value)); });
    slider.addEventListener("pointerdown", () => { touched = place; ahead(); });
    slider.addEventListener("focus", () => { touched = place; });
    whole.append(name, slider, readout);
    const tell = () => {
      slider.value = String(at[place]);
      slider.setAttribute("aria-valuetext", control.texts[at[place]]);
      readout.textContent = control.texts[at[place]];
    };
    if (control.kind !== "steps") return tell;
    const button = (text, words, act) => {
      const made = make("button", "", text);
      made.type = "button";
      made.setAttribute("aria-label", words);
      made.title = words;
      made.addEventListener("click", act);
      return made;
    };
    // Drawn, because many fonts have no letter for a pause.
    const drawn = (way) => `<svg viewBox="0 0 12 12" width="0.8em" height="0.8em" aria-hidden="true"><path d="${way}"/></svg>`;
    const back = button("\u2039", "one " + control.label + " back", () => { stop(); to(Math.max(0, at[place] - 1)); });
    const on = button("\u203a", "one " + control.label + " on", () => { stop(); to(Math.min(last, at[place] + 1)); });
    const play = button("", "play", () => {
      if (playing) return stop();
      if (at[place] === last) to(0);
      const beat = () => {
        const next = [...at];
        next[place] += 1;
        if (has(keyOf(next))) to(next[place]);
        else need();
        if (at[place] === last) stop();
      };
      playing = setInterval(beat, BEAT);
      tellPlay();
    });
    const tellPlay = () => {
      play.innerHTML = drawn(playing ? "M2 1h3v10h-3zM7 1h3v10h-3z" : "M2 1v10l9-5z");
      play.setAttribute("aria-label", playing ? "pause" : "play");
      play.title = playing ? "pause" : "play";
    };
    tellPlay();
    const buttons = make("div", "course-play");
    buttons.append(back, play, on);
    whole.append(buttons);
    return () => {
      tell();
      tellPlay();
      // `disabled` would take the keyboard's focus away
      back.setAttribute("aria-disabled", String(at[place] === 0));
      on.setAttribute("aria-disabled", String(at[place] === last));
    };
  });
  const tellAll = () => tellers.forEach((tell) => tell());
  function stop() {
    if (!playing) return;
    clearInterval(playing);
    playing = null;
    tellAll();
  }

  // The picture -------------------------------------------------------------------------------------------------------
  function moved() {
    tellAll();
    show();
    ahead();
  }
  function show() {
    const key = keyOf(at), frame = frames.get(key);
    root.classList.toggle("course-late", !has(key));
    if (!has(key)) need();
    if (!frame) return;
    const put = (picture) => {
      if (keyOf(at) !== key) return;  // the hand is further on
      box.replaceChildren(...(picture ? [picture] : []));
      said.textContent = frame.failed || frame.said;
      said.classList.toggle("course-failed", Boolean(frame.failed));
      lines = Math.max(lines, said.textContent ? said.textContent.split("\n").length : 0);
      said.style.minHeight = lines * 1.4 + "em";  // as much room as it ever took, so that nothing below it jumps
      shown = key;
      player.lastShown = key;
      root.dataset.shown = key;
    };
    if (!frame.src && !frame.dark) return put(null);
    const picture = image(key, frame);
    picture.complete && picture.naturalWidth ? put(picture) : picture.decode().then(() => put(picture), () => put(picture));
  }
  function image(key, frame) {
    const src = (night ? frame.dark : frame.src) || frame.src || frame.dark;
    let picture = images.get(key);
    if (picture?.getAttribute("src") !== src) {
      picture = new Image(frame.width, frame.height);
      Object.assign(picture, {alt: frame.words, src, draggable: false});
      picture.style.setProperty("--own", frame.width + "px");
      picture.style.minWidth = Math.min(frame.width, READABLE) + "px";  // on a phone it is scrolled, not read with a lens
      images.set(key, picture);
    }
    if (frame.width > wide || frame.height > high) {  // the room grows, and never shrinks
      wide = Math.max(wide, frame.width);
      high = Math.max(high, frame.height);
      const least = high * Math.min(1, READABLE / wide) + 12;  // and a bar to scroll with
      box.style.setProperty("--least", high * Math.min(1, 600 / wide) + 12 + "px");  // beside JupyterLab's list of files
      Object.assign(box.style, {width: wide + "px", aspectRatio: wide + " / " + high, minHeight: least + "px"});
    }
    return picture;
  }

  // Frames that are not there yet -------------------------------------------------------------------------------------
  function missing() {
    const key = keyOf(at);
    if (!has(key)) return key;
    if (!seen || document.hidden) return null;  // nobody looks: draw nothing ahead
    const reach = Math.max(...data.controls.map((control) => control.texts.length));
    const order = data.controls.map((_, place) => place).sort((a, b) => (b === touched) - (a === touched));
    let left = MOST_AHEAD;
    const line = (place, distance) => {
      for (const value of [at[place] + distance, at[place] - distance]) {
        if (value < 0 || value >= data.controls[place].texts.length || left-- <= 0) continue;
        const other = [...at];
        other[place] = value;
        if (!has(keyOf(other))) return keyOf(other);
      }
      return null;
    };
    // First the whole way of the control in hand, then from the near to the far of all; then, if there are few, all.
    if (touched >= 0) for (let d = 1; d < reach; d++) { const found = line(touched, d); if (found) return found; }
    for (let d = 1; d < reach; d++) for (const place of order) { const found = line(place, d); if (found) return found; }
    return nearest();
  }
  // Every setting, by how far it is from the one that is shown; none where there are too many to draw them all.
  function every() {
    const sizes = data.controls.map((control) => control.texts.length);
    if (sizes.reduce((all, size) => all * size, 1) > ALL) return [];
    return sizes.reduce((all, size) => all.flatMap((places) => [...Array(size).keys()].map((v) => [...places, v])), [[]]);
  }
  function nearest() {
    const far = (places) => places.reduce((sum, value, place) => sum + Math.abs(value - at[place]), 0);
    const left = all.filter((places) => !has(keyOf(places)));
    return left.length ? keyOf(left.reduce((a, b) => (far(b) < far(a) ? b : a))) : null;
  }
  function need() {
    if (!ask || asked !== null) return;  // one at a time, so that the hand's newest wish never waits for old ones
    asked = missing();
    player.ready = asked === null;
    root.dataset.ready = String(player.ready);
    if (asked !== null) ask(asked, asked !== keyOf(at), night);
  }
  const ahead = need, all = every();
  player.begun = () => { asked = null; need(); };  // a step of a frame that was asked for ahead: the hand may want another
  player.got = (key, frame) => {
    if (frames.size >= MOST_KEPT) {
      const [oldest] = frames.keys();
      if (oldest !== shown) { frames.delete(oldest); images.delete(oldest); }
    }
    frames.set(key, {...frames.get(key), ...frame});
    if (frame.src || frame.dark) image(key, frames.get(key)).decode().catch(() => {});
    if (asked === key) asked = null;
    if (key === keyOf(at)) show();
    need();
  };
  if (ask) {
    new IntersectionObserver((entries) => { seen = entries.some((entry) => entry.isIntersecting); need(); }).observe(root);
    document.addEventListener("visibilitychange", need);
  } else {
    root.dataset.ready = "true";
    const still = () => frames.forEach((frame, key) => (frame.src || frame.dark) && image(key, frame));
    "requestIdleCallback" in window ? requestIdleCallback(still) : setTimeout(still, 500);
  }
  const turned = () => { if (night !== isNight()) { night = !night; show(); need(); } };
  const watched = new MutationObserver(turned), media = ["(prefers-color-scheme: dark)", "print"].map((one) => matchMedia(one));
  watched.observe(document.body, {attributes: true, attributeFilter: ["data-jp-theme-light", "data-theme"]});
  media.forEach((one) => one.addEventListener("change", turned));
  player.stop = () => {
    stop();
    watched.disconnect();
    media.forEach((one) => one.removeEventListener("change", turned));
  };
  tellAll();
  show();
  need();
  return player;
}
