import { effect, signal } from "@preact/signals";

// Light or dark: the system's, until the reader says otherwise.

export type Theme = "light" | "dark";

const darkSystem = matchMedia("(prefers-color-scheme: dark)");

export const theme = signal<Theme>(darkSystem.matches ? "dark" : "light");

let chosen = false;

export function startTheme(): void {
  darkSystem.addEventListener("change", () => {
    if (!chosen) theme.value = darkSystem.matches ? "dark" : "light";
  });
  let shown = theme.value;
  addEventListener("beforeprint", () => {
    shown = theme.value;
    theme.value = "light"; // paper is white, and canvases keep the colours they were painted in
  });
  addEventListener("afterprint", () => {
    theme.value = shown;
  });
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}

/** That of the notebook around this page. */
export function followTheme(given: Theme): void {
  if (!chosen) theme.value = given;
}

export function switchTheme(): void {
  chosen = true;
  theme.value = theme.value === "dark" ? "light" : "dark";
}
