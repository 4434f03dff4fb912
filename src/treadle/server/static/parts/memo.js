// A component that is drawn again only when one of its properties is another value.

import { Component, h } from "../vendor/preact-htm.js";

export function memo(draw) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const names = new Set([...Object.keys(this.props), ...Object.keys(next)]);
      for (const name of names) if (this.props[name] !== next[name]) return true;
      return false;
    }

    render() {
      return h(draw, this.props);
    }
  };
}
