(async () => {
  const { poll, open } = document.querySelector("main").dataset;
  for (;;) {
    let said = { state: "waiting" };
    try {
      const answer = await fetch(poll, { headers: { accept: "application/json" } });
      said = answer.ok ? await answer.json() : { state: "other" };
      document.querySelector("#trouble").textContent = said.trouble ?? "";
    } catch {
      // The network may be back in a moment.
    }
    if (said.state === "ready") return location.replace(open);
    if (said.state !== "waiting") return location.replace(poll);
    await new Promise((done) => setTimeout(done, 1000));
  }
})();
