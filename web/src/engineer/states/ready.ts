/** Say that a view is drawn: for tests, and for measuring. */
export function markReady(view: string): void {
  const page = document.documentElement;
  if (page.dataset.ready === view) return;
  page.dataset.ready = view;
  performance.mark("regard-ready");
}

/** Another view is on its way. */
export function unmarkReady(): void {
  delete document.documentElement.dataset.ready;
}
