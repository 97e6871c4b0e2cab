import { defineConfig } from "vitest/config";

// One script and one style sheet with fixed names: the server has a fixed list of files, and the
// self-contained page inlines both.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/regard/viewer/static",
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: { entryFileNames: "page.js", assetFileNames: "page[extname]", codeSplitting: false },
    },
  },
  test: {
    include: ["tests/**/*.test.ts"],
    // what a file carries is compared where Python made one: tests/viewer/test_file_source.py
    exclude: process.env.REGARD_CARRIED ? [] : ["tests/source/file.test.ts"],
    environment: "node",
  },
});
