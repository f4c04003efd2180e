import { render } from "preact";
import { App } from "./app.js";
import { startKeys } from "./keys.js";
import { startRouter } from "./router.js";
import { keepSettings } from "./ui/settings.js";
import "./style.css";

keepSettings();
startRouter();
startKeys();
render(<App />, document.getElementById("app") as HTMLElement);
