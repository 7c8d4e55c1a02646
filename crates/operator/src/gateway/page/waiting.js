(async () => {
  const { poll, open } = document.querySelector("main").dataset;
  for (;;) {
    let state = "waiting";
    try {
      const answer = await fetch(poll, { headers: { accept: "application/json" } });
      state = answer.ok ? (await answer.json()).state : "other";
    } catch {
      // The network may be back in a moment.
    }
    if (state === "ready") return location.replace(open);
    if (state !== "waiting") return location.replace(poll);
    await new Promise((done) => setTimeout(done, 1000));
  }
})();
