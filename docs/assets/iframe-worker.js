// A browser starts no worker of a page that it opens from a disk. There the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.onmessage?.(message);
        this.dispatchEvent(message);
      };
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href).href;
      this.ready = new Promise((resolve) => script.addEventListener("load", () => resolve(inside)));
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.ready.then((inside) => inside.onmessage?.(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
