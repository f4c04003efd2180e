import { effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

export const THEMES: readonly Theme[] = ["auto", "light", "dark"];

/** The theme, and whether times are shown as such instead of as ages. The browser keeps both. */
export const theme = signal<Theme>(stored("quire-theme", THEMES, "auto"));
export const times = signal<"relative" | "absolute">(stored("quire-times", ["relative", "absolute"] as const, "relative"));

function stored<T extends string>(key: string, values: readonly T[], otherwise: T): T {
  const value = localStorage.getItem(key);
  return values.find((one) => one === value) ?? otherwise;
}

export function keepSettings(): void {
  effect(() => {
    document.documentElement.dataset["theme"] = theme.value;
    localStorage.setItem("quire-theme", theme.value);
  });
  effect(() => {
    document.documentElement.dataset["times"] = times.value;
    localStorage.setItem("quire-times", times.value);
  });
}
