// The few words of Node that the tests use; the page itself has none of them.
declare module "node:fs" {
  export function readFileSync(path: string, encoding: "utf8"): string;
}
declare module "node:child_process" {
  export function execFileSync(
    file: string,
    given: readonly string[],
    how: { readonly input: string; readonly encoding: "utf8" },
  ): string;
}
declare const process: { readonly env: Readonly<Record<string, string | undefined>> };
