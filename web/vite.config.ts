import { defineConfig } from "vitest/config";

// One script and one style sheet with fixed names: the server has a fixed list of files, and the
// self-contained page inlines both. `--mode widget` adds what a notebook loads around that page.
const PAGE = {
  emptyOutDir: true,
  rolldownOptions: {
    output: { entryFileNames: "page.js", assetFileNames: "page[extname]", codeSplitting: false },
  },
};
const WIDGET = {
  emptyOutDir: false,
  lib: { entry: "src/widget/widget.ts", formats: ["es" as const], fileName: () => "widget.js" },
};

export default defineConfig(({ mode }) => ({
  base: "./",
  build: {
    outDir: "../src/regard/viewer/static",
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false as const,
    assetsInlineLimit: 0,
    ...(mode === "widget" ? WIDGET : PAGE),
  },
  test: {
    include: ["tests/**/*.test.ts"],
    // what a file carries is compared where Python made one: tests/viewer/test_file_source.py
    exclude: process.env.REGARD_CARRIED ? [] : ["tests/source/file.test.ts"],
    environment: "node",
    setupFiles: ["tests/setup.ts"],
  },
}));
